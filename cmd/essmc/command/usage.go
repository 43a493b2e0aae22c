package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/essmc/essmc/internal/spell"
)

// usageError is an error in the command line.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// otherWords are words that people expect commands to have, with the names of the commands.
var otherWords = map[string]string{
	"predict": "run", "infer": "run", "eval": "run", "exec": "run", "execute": "run", "check": "verify",
	"diff":      "compare",
	"benchmark": "bench", "perf": "bench", "time": "bench", "profile": "bench", "info": "inspect", "show": "inspect",
	"describe": "inspect", "summary": "inspect", "build": "compile", "create": "init", "new": "init",
	"chat":     "generate",
	"complete": "generate", "save": "export", "load": "import", "gpus": "devices", "operators": "ops",
}

// unknownCommand is the error for a command that does not exist.
func unknownCommand(root *cobra.Command, word string) error {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	meant := didYouMean(word, names)
	if other, ok := otherWords[strings.ToLower(word)]; ok && meant == "" {
		meant = fmt.Sprintf(", did you mean %s?", other)
	}
	return usagef("unknown command %q%s; essmc -h lists all", word, meant)
}

// didYouMean proposes the name that is probably meant, if there is one.
func didYouMean(word string, names []string) string {
	if near := spell.Close(word, names); near != "" {
		return fmt.Sprintf(", did you mean %s?", near)
	}
	return ""
}

// flagError words an error of the flag parser: with the command, and the flag that is probably meant.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	msg := err.Error()
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &invalid):
		msg = fmt.Sprintf("--%s %s: %v", invalid.GetFlag().Name, quoted(invalid.GetValue()), errors.Unwrap(invalid))
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if group := unknown.GetSpecifiedShortnames(); group != "" { // letters behind one dash
			name = group
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		switch meant := spell.Close(name, names); {
		case meant != "":
			msg = fmt.Sprintf("unknown flag %s, did you mean --%s?", dashed(unknown), meant)
		default:
			msg = fmt.Sprintf("unknown flag %s", dashed(unknown))
		}
	}
	return usagef("%s: %s; see %s -h", cmd.CommandPath(), msg, cmd.CommandPath())
}

// dashed returns the flag as it was typed.
func dashed(unknown *pflag.NotExistError) string {
	if group := unknown.GetSpecifiedShortnames(); group != "" {
		return "-" + group
	}
	return "--" + unknown.GetSpecifiedName()
}

// checkDashes refuses long flags behind one dash, as Go's own commands have them: -input is read as -i nput otherwise.
func checkDashes(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return nil // cobra reports it
	}
	for i, a := range rest {
		if a == "--" {
			return nil
		}
		name, isOne := strings.CutPrefix(a, "-")
		name, _, _ = strings.Cut(name, "=")
		if !isOne || len(name) < 2 || cmd.Flags().Lookup(name) == nil {
			continue
		}
		if i > 0 { // the value of a flag
			before, long := strings.CutPrefix(rest[i-1], "--")
			if f := cmd.Flags().Lookup(before); long && f != nil && f.NoOptDefVal == "" {
				continue
			}
		}
		right := slices.Clone(args)
		right[len(args)-len(rest)+i] = "-" + a
		return usagef("%s: -%s: flags of several letters have two dashes: %s %s", cmd.CommandPath(), name, root.Name(),
			typed(right))
	}
	return nil
}

// typed joins arguments to a command line.
func typed(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = quoted(a)
	}
	return strings.Join(out, " ")
}

// quoted puts an argument into quotes if a shell needs them.
func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n\"'$&|;<>()*?[]{}\\`!") {
		if !strings.ContainsAny(s, "'\n\t") {
			return "'" + s + "'"
		}
		return strconv.Quote(s)
	}
	return s
}

// args checks the number of arguments. Names are those in the usage line. Names in brackets are optional.
func args(names ...string) cobra.PositionalArgs {
	required := 0
	for _, n := range names {
		if !strings.HasPrefix(n, "[") {
			required++
		}
	}
	return func(cmd *cobra.Command, given []string) error {
		if len(given) >= required && len(given) <= len(names) {
			return nil
		}
		want := "no arguments"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		found := "none"
		if len(given) > 0 {
			found = typed(given)
		}
		msg := fmt.Sprintf("%s: expected %s, found %s", cmd.CommandPath(), want, found)
		if right := withFlags(cmd, given, len(names)); right != "" {
			return usagef("%s; try %s %s", msg, cmd.CommandPath(), right)
		}
		return usagef("%s; see %s -h", msg, cmd.CommandPath())
	}
}

// withFlags returns the arguments with the flags that were probably meant for those behind the first n. It returns ""
// if the command has none for them, or if they are given already.
func withFlags(cmd *cobra.Command, given []string, n int) string {
	if len(given) <= n {
		return ""
	}
	out := typed(given[:n])
	for i, a := range given[n:] {
		flag := ""
		switch has := func(name string) bool { return cmd.Flags().Lookup(name) != nil }; {
		case has("prompt") && !changed(cmd, "prompt"):
			if i > 0 {
				return "" // the words of a text without quotes
			}
			flag = "--prompt"
		case has("expect") && i == len(given)-n-1 && (i > 0 || changed(cmd, "input")):
			flag = "--expect"
		case has("input"):
			flag = "--input"
		case has("output") && i == 0 && !changed(cmd, "output"):
			flag = "-o"
		default:
			return ""
		}
		out += " " + flag + " " + quoted(a)
	}
	return out
}
