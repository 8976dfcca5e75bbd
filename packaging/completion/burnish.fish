# Completion of burnish for fish. The program itself says what there is to complete.
function __burnish_verb
    set -l words (commandline -opc)
    test (count $words) -gt 1; or return 1
    echo $words[2]
end
function __burnish_wants_option
    __burnish_verb >/dev/null; and string match -q -- '-*' (commandline -ct)
end
function __burnish_choices
    set -l words (commandline -opc)
    test (count $words) -gt 2; and string match -q -- '--*' $words[-1]; or return 1
    burnish $words[2] --help --choices $words[-1] 2>/dev/null
end
complete -c burnish -n 'not __burnish_verb >/dev/null' -f -a '(burnish --help --names 2>/dev/null)'
complete -c burnish -n __burnish_wants_option -f -a '(burnish (__burnish_verb) --help --names 2>/dev/null)'
complete -c burnish -n 'test (count (__burnish_choices)) -gt 0' -f -a '(__burnish_choices)'
