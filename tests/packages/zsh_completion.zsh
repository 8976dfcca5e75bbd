# zsh_completion.zsh FOLDER WORDS: what a zsh with the completions of FOLDER makes of WORDS when Tab is pressed behind them. Completion
# works in an interactive zsh alone, so one is started at a terminal of its own.
zmodload zsh/zpty
zpty shell "zsh -f -i"
zpty -w shell "PS1=; unset zle_bracketed_paste; fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; bindkey '^I' complete-word; print rea''dy"
while zpty -r shell line; do [[ $line == *ready* && $line != *print* ]] && break; done
zpty -w -n shell "$2"$'\t'
zpty -w -n shell $'\x01print -r -- "=\x05="\n'
while zpty -r shell line; do
  if [[ $line == "="*"="* ]]; then
    line=${line#=}
    print -r -- ${${line%%=*}% }
    break
  fi
done
zpty -d shell
