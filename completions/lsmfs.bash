# Completion of lsmfs and its helpers for bash.

# Each prints words, one a line.
_lsmfs_mounts() {  # where an lsmfs is mounted
  local point type
  while read -r _ point type _; do
    case $type in fuse.lsmfs | fuseblk.lsmfs) printf '%b\n' "${point//\\/\\0}" ;; esac
  done < /proc/self/mounts
}

_lsmfs_devices() { lsblk -nrpo NAME 2> /dev/null; }

_lsmfs_tags() {  # LABEL=... and UUID=... of each lsmfs that udev knows
  local line pattern='FSTYPE="lsmfs" LABEL="(.*)" UUID="(.*)"'
  while read -r line; do
    if [[ $line =~ $pattern ]]; then
      if [ -n "${BASH_REMATCH[1]}" ]; then printf '%b\n' "LABEL=${BASH_REMATCH[1]}"; fi
      printf '%s\n' "UUID=${BASH_REMATCH[2]}"
    fi
  done < <(lsblk -nPo FSTYPE,LABEL,UUID 2> /dev/null)
}

# Takes of the lines on stdin those that begin with $current. $kept comes before each: what is typed already.
_lsmfs_take() {
  local line
  while IFS= read -r line; do
    if [[ $line == "$current"* ]]; then COMPREPLY+=("$kept$line"); fi
  done
}

_lsmfs_words() { _lsmfs_take < <(printf '%s\n' "$@"); }


_lsmfs_sources() {  # what a device or image is named by; with "tags" also by label or UUID
  case $current in
    *[/~\\\'\"]*) ;;  # of paths readline knows more
    *)
      compopt -o filenames
      _lsmfs_take < <(compgen -f -- "$current")
      _lsmfs_take < <(_lsmfs_devices)
      if [ "${1:-}" = tags ]; then _lsmfs_take < <(_lsmfs_tags); fi
      ;;
  esac
  if [ ${#COMPREPLY[@]} -eq 0 ]; then compopt -o default; fi
}

_lsmfs_mount_options() {
  local list=$current
  kept=
  if [[ $list == *,* ]]; then kept=${list%,*},; fi
  current=${list##*,}
  case $current in
    cache=*) _lsmfs_words cache={64M,256M,1G} ;;
    sync_interval=*) _lsmfs_words sync_interval={0,1,5,30} ;;
    timeout=*) _lsmfs_words timeout={0,10,60,600} ;;
    latency=*) _lsmfs_words latency={auto,on,off} ;;
    io_uring=*) _lsmfs_words io_uring={auto,on,off} ;;
    *)
      _lsmfs_words ro rw cache= sync_interval= timeout= relatime noatime strictatime nodiratime atime norelatime nostrictatime diratime acl noacl xattr noxattr user_rm nouser_rm \
        snapshot= remount latency= io_uring= writeback sync dirsync async nosuid nodev noexec lazytime nosymfollow suid dev exec nolazytime symfollow context= fscontext= defcontext= rootcontext= \
        allow_other nofail
      ;;
  esac
  # More may follow a list.
  compopt -o nospace
}

_lsmfs() {
  COMPREPLY=()
  local words=() word gap rest=${COMP_LINE:0:COMP_POINT} index current kept='' previous='' command options=() valued=''
  # For bash "=" and ":" are words of their own.
  for ((index = 0; index <= COMP_CWORD; ++index)); do
    word=${COMP_WORDS[index]}
    gap=${rest%%[![:blank:]]*}
    rest=${rest#"$gap"}
    if [ "$index" -eq "$COMP_CWORD" ]; then word=$rest; fi
    rest=${rest#"$word"}
    if [ "$index" -eq 0 ] || [ -n "$gap" ]; then words+=("$word"); else words[-1]+=$word; fi
  done
  local last=$((${#words[@]} - 1))
  local typed=${words[last]}
  current=$typed
  if [ "$last" -gt 0 ]; then previous=${words[last - 1]}; fi

  local first=1
  case ${1##*/} in
    mount.*) command=mount.lsmfs ;;
    mkfs.*) command=mkfs.lsmfs ;;
    fsck.*) command=fsck.lsmfs ;;
    *)
      command=${words[1]:-}
      first=2
      ;;
  esac
  local commands=(mkfs mount tune resize umount clone import snapshot prune rollback send receive rm fsck scrub snapshots diff changes info stats top layout trim help)
  if [ "$last" -lt "$first" ]; then
    case $current in
      -*) _lsmfs_words -h --help -V --version ;;
      *) _lsmfs_words "${commands[@]}" ;;
    esac
    return
  fi

  # `valued`: options that take a value.
  case $command in
    mkfs) options=(-L --label -f --force --size -d --from --lease) valued=' -L --label --size -d --from ' ;;
    mkfs.lsmfs) options=(-L --label -f --force --size -d --from --lease -v -V --version) valued=' -L --label --size -d --from ' ;;
    mount) options=(-o -f --foreground --log) valued=' -o --log ' ;;
    mount.lsmfs) options=(-o -s -f -r -w -n -v -t -V --version) valued=' -o -t ' ;;
    tune) options=(-L --label -U --uuid -o --lease) valued=' -L --label -U --uuid -o --lease ' ;;
    resize) ;;
    umount) options=(--wait) ;;
    clone | import | snapshot) ;;
    prune) options=(--all -n --dry-run --json) ;;
    rollback) options=(--discard) ;;
    send) options=(-i --from --resume -q --quiet) valued=' -i --from --resume ' ;;
    receive) options=(-t --tokens -q --quiet) ;;
    rm) options=(-r -R --recursive) ;;
    fsck) options=(-n -a -p -y -f -v -t -C) ;;
    fsck.lsmfs) options=(-n -a -p -y -f -v -t -C -V --version) ;;
    scrub) options=(--rate) valued=' --rate ' ;;
    diff) options=(--all -0 --null --json) ;;
    changes) options=(--since -0 --null --json --git) valued=' --since ' ;;
    snapshots) options=(--json --sizes) ;;
    info) options=(--json --udev) ;;
    stats) options=(--json --prometheus --interval) valued=' --interval ' ;;
    layout)
      options=(--device --drop-caches --json --output --trace --buffer) valued=' --device --output --trace --buffer '
      for ((word = first; word < last; ++word)); do
        if [ "${words[word]}" = -- ]; then
          if [ $((word + 1)) -eq "$last" ]; then _lsmfs_take < <(compgen -c -- "$current" | sort -u); else compopt -o default; fi
          return
        fi
      done
      ;;
    top | trim) ;;
    help)
      if [ "$last" -eq 2 ]; then _lsmfs_words "${commands[@]}"; fi
      return
      ;;
    *) return ;;
  esac

  # The value of "--size=4G" is completed as that of "--size 4G".
  if [[ $current == --*=* ]]; then
    previous=${current%%=*}
    current=${current#*=}
    kept=
  elif [[ $current == -o?* && $valued == *' -o '* ]]; then
    current=${current#-o}
    _lsmfs_mount_options
    COMPREPLY=("${COMPREPLY[@]/#/-o}")
    _lsmfs_trim
    return
  elif [[ $current == -* ]]; then
    _lsmfs_words -h --help "${options[@]}"
    return
  fi

  if [[ $previous == -* && $valued == *" $previous "* ]]; then
    case $previous in
      -o) _lsmfs_mount_options ;;
      -t) _lsmfs_words lsmfs fuse.lsmfs fuseblk.lsmfs ;;
      --size) _lsmfs_words 1G 4G 16G ;;
      -U | --uuid) _lsmfs_words random ;;
      --lease) _lsmfs_words on off ;;
      --rate) _lsmfs_words 0 10M 64M ;;
      --interval) _lsmfs_words 1 10 60 ;;
      --buffer) _lsmfs_words 16M 64M ;;
      --device) _lsmfs_take < <(_lsmfs_devices) ;;
      --log | --output | --trace | -d | --from) compopt -o default ;;
    esac
    _lsmfs_trim
    return
  fi

  local operands=0 skip=no
  for ((word = first; word < last; ++word)); do
    if [ $skip = yes ]; then
      skip=no
    elif [[ $valued == *" ${words[word]} "* ]]; then
      skip=yes
    elif [[ ${words[word - 1]} == -C && $command == fsck* && ${words[word]} =~ ^[0-9]+$ ]]; then
      :  # the descriptor
    elif [[ ${words[word]} != -* ]]; then
      operands=$((operands + 1))
    fi
  done
  case $command:$operands in
    mkfs*:0) _lsmfs_sources ;;
    mount*:0 | fsck*:0 | info:0 | tune:0 | resize:0) _lsmfs_sources tags ;;
    resize:1) _lsmfs_words 1G 4G 16G ;;
    mount*:1) compopt -o dirnames ;;
    umount:0 | scrub:0 | stats:0 | top:0 | trim:0)
      compopt -o filenames
      _lsmfs_take < <(_lsmfs_mounts)
      ;;
    layout:0 | import:0) compopt -o default ;;
    import:1) compopt -o dirnames ;;
    clone:[01] | rollback:[01] | diff:[01] | send:0 | receive:0 | snapshot:0 | snapshots:0 | changes:0 | prune:0 | rm:*) compopt -o dirnames ;;
    prune:*) _lsmfs_words latest=10 hourly=24 daily=7 weekly=5 monthly=12 yearly=2 ;;
  esac
  _lsmfs_trim
}

# bash replaces what follows the last character that divides words for it.
_lsmfs_trim() {
  local breaks=${COMP_WORDBREAKS//[!=:]/} before=$typed
  if [ -z "$breaks" ]; then return; fi
  before=${before%"${before##*["$breaks"]}"}
  if [[ $typed == --*=* ]]; then before=${before#*=}; fi  # of which the words have nothing
  COMPREPLY=("${COMPREPLY[@]#"$before"}")
}

complete -F _lsmfs lsmfs mkfs.lsmfs fsck.lsmfs fsck.fuse.lsmfs fsck.fuseblk.lsmfs mount.lsmfs mount.fuse.lsmfs mount.fuseblk.lsmfs
