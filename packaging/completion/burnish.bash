# Completion of burnish for bash. The program itself says what there is to complete.
_burnish() {
  local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} names
  if [[ $word == = ]]; then word=; fi  # bash takes --option=WORD for three words
  if [[ $option == = ]]; then option=${COMP_WORDS[COMP_CWORD - 2]}; fi
  if ((COMP_CWORD == 1)); then
    names=$(burnish --help --names 2>/dev/null | cut -f 1)
  elif [[ $word == -* ]]; then
    names=$(burnish "${COMP_WORDS[1]}" --help --names 2>/dev/null | cut -f 1)
  elif [[ $option == --* ]]; then
    names=$(burnish "${COMP_WORDS[1]}" --help --choices "$option" 2>/dev/null)
  fi
  if [[ -z $names ]]; then
    compopt -o default
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$names" -- "$word")
}
complete -F _burnish burnish
