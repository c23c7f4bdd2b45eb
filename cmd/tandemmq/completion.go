package main

import (
	"io"

	"github.com/urfave/cli/v2"
)

// completionScript lets bash, and zsh through its bash emulation, ask the binary itself what may come next.
const completionScript = `# tandemmq completion for bash and zsh
if [ -n "${ZSH_VERSION-}" ]; then
  autoload -U +X compinit bashcompinit && compinit && bashcompinit
fi
_tandemmq() {
  local cur="${COMP_WORDS[COMP_CWORD]}"
  local words=("${COMP_WORDS[@]:0:$COMP_CWORD}")
  case "$cur" in
    -*) words+=("$cur") ;;
  esac
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o default -F _tandemmq tandemmq
`

func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print the script that completes commands and flags in bash and zsh",
		Description: "Example, for the shell at hand or at the end of ~/.bashrc or ~/.zshrc:\n\n   source <(tandemmq completion)",
		Action: func(c *cli.Context) error {
			_, err := io.WriteString(c.App.Writer, completionScript)
			return err
		},
	}
}
