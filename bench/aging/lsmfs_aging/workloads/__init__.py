"""The workloads by name. Each is a class:

    name, help            for the command line
    add_arguments(parser) its own options
    Workload(given)       `given`: the parsed command line; checks what can be checked
    asked()               what decides about its figures, as JSON
    prepare(context)      makes what all cells need
    steps()               how many times a cell calls checkpoint()
    run(stage)            ages the tree of one cell and measures it
"""

from . import files, git, large, mail, reads, svn

ALL = {workload.name: workload for workload in (git.Git, git.GitWarm, files.Intrafile, files.Interfile, files.FileSize, mail.Mail,
                                                    reads.XargsCat, reads.GitIgnore, large.BigAlloc, svn.Svn)}
