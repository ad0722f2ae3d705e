"""The workloads by name."""

from . import files, git, large, mail, reads, svn

ALL = {workload.name: workload for workload in (git.Git, git.GitWarm, files.Intrafile, files.Interfile, files.FileSize, mail.Mail,
                                                reads.XargsCat, reads.GitIgnore, large.BigAlloc, svn.Svn)}
