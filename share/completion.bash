# bash completion of psd_run and psd. Options and their choices are read from
# the programs' own --help, so nothing has to be kept in step.

_poseidon() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local words=("$1") help choices

    COMPREPLY=()
    if [[ ${1##*/} == psd ]]; then
        if ((COMP_CWORD == 1)); then
            help=$("$1" --help 2>/dev/null)
            COMPREPLY=($(compgen -W "$(sed -n \
                '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' <<<"$help") \
                --help --version" -- "$cur"))
            return
        fi
        words+=("${COMP_WORDS[1]}")
    fi
    help=$("${words[@]}" --help 2>/dev/null)
    choices=$(sed -n "s/^ *\(-., \)\{0,1\}$prev \([a-z0-9]*|[^ ]*\) .*/\2/p" \
        <<<"$help")
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$(grep -oE '^ +(-., )?--[a-z-]+' <<<"$help" |
            grep -oE -- '--[a-z-]+')" -- "$cur"))
    elif [[ -n $choices ]]; then
        COMPREPLY=($(compgen -W "${choices//|/ }" -- "$cur"))
    else
        case $prev in
        -o | --out) COMPREPLY=($(compgen -d -- "$cur")) ;;
        *) COMPREPLY=($(compgen -f -- "$cur")) ;;
        esac
    fi
}

complete -o filenames -F _poseidon psd_run psd
