// Package command is the command essmc. A program that imports it, and packages with operators, kernels and families of
// models of its own, is a command that has these, too:
//
//	func main() { os.Exit(command.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
//
// Passes of its own are in Options.
//
// The package may import everything. Each subcommand is one file with a function that makes its cobra command. Common
// parts are in flags.go and in the packages under internal. All state belongs to the commands of one call of Main.
// Errors are one line on standard error. The exit code is 1 for errors in files, models and inputs, and 2 for errors in
// the command line. Files are written completely or not at all.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/spell"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/kernels"
)

// The exit codes.
const (
	exitBad   = 1 // error in files, models or inputs
	exitUsage = 2 // error in the command line
)

// debugVariable is the environment variable that shows the stacks of internal errors.
const debugVariable = "ESSMC_DEBUG"

// Options add to the command.
type Options struct {
	// Passes run with the others on each model that a command compiles; see open.Options.Passes.
	Passes []*passes.Pass
}

type optionsKey struct{}

// optionsOf returns the options of a command.
func optionsOf(cmd *cobra.Command) Options {
	if cmd.Context() == nil {
		return Options{}
	}
	o, _ := cmd.Context().Value(optionsKey{}).(Options)
	return o
}

// Main runs the command with the given arguments and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	return Options{}.Main(args, stdin, stdout, stderr)
}

// Main runs the command with the options. It returns the exit code.
func (o Options) Main(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	ctx, stop := signal.NotifyContext(context.WithValue(context.Background(), optionsKey{}, o), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // from now on, an interrupt ends the process
	defer func() {
		if v := recover(); v != nil {
			code = report(stderr, &runtime.PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	out := &output{Writer: stdout}
	root := newRootCommand()
	root.SetArgs(append([]string{}, args...)) // cobra replaces nil by the arguments of the process
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	err := checkDashes(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil && out.err != nil {
		err = fmt.Errorf("standard output: %w", out.err)
	}
	if err != nil {
		return report(stderr, err)
	}
	return 0
}

// output keeps the first error, so that commands need not check each write.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.Writer.Write(b)
	o.err = err
	return n, err
}

// report writes err as one line and returns its exit code.
func report(w io.Writer, err error) int {
	code := exitBad
	var usage *usageError
	var option *runtime.OptionError
	var source *open.OptionError
	msg := err.Error()
	switch {
	case errors.As(err, &usage):
		code = exitUsage
	case errors.As(err, &option):
		code = exitUsage
		msg = fmt.Sprintf("--%s: %s", strings.ToLower(option.Option), option.Msg)
	case errors.As(err, &source): // the flag is valid, but not for this model
		flag := map[string]string{"Shapes": "--shape ", "Carry": "--state: ", "Rate": "--resample: "}[source.Option]
		if source.Value != "" {
			flag += source.Value + ": "
		}
		msg = strings.Replace(msg, source.Error(), fmt.Sprintf("%s: %s%v", source.Name, flag, source.Err), 1)
	case errors.Is(err, context.Canceled):
		msg = "interrupted"
	}
	var path *fs.PathError
	if errors.As(err, &path) { // without the system call: "x.npy: no such file or directory"
		msg = strings.Replace(msg, path.Error(), path.Path+": "+path.Err.Error(), 1)
		msg = strings.Replace(msg, path.Path+": "+path.Path+": ", path.Path+": ", 1)
		if errors.Is(path.Err, fs.ErrNotExist) && msg == path.Path+": "+path.Err.Error() {
			msg += otherPath(path.Path)
		}
	}
	var fault *runtime.PanicError
	if errors.As(err, &fault) {
		where := "a bug in essmc, please report it"
		if own := (*kernels.Error)(nil); errors.As(err, &own) {
			where = "a bug in that kernel, which is not part of essmc"
		}
		msg = fmt.Sprintf("%s (%s; %s=1 shows the stack)", msg, where, debugVariable)
	}
	if msg = oneLine(msg); !strings.HasPrefix(msg, "essmc ") { // errors in the command line begin with the command
		msg = "essmc: " + msg
	}
	fmt.Fprintln(w, msg)
	if fault != nil && os.Getenv(debugVariable) != "" {
		fmt.Fprintf(w, "%s\n", fault.Stack)
	}
	return code
}

// maxNames bounds the names of a folder that are compared with one that is not there.
const maxNames = 1 << 12

// otherPath says which path is probably meant by one that is not there, or that its folder is missing.
func otherPath(path string) string {
	dir, name := filepath.Split(filepath.Clean(path))
	if dir == "" {
		dir = "."
	}
	entries, err := files.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("; the folder %s does not exist", filepath.Clean(dir))
	}
	var names []string
	for _, e := range entries[:min(len(entries), maxNames)] {
		names = append(names, e.Name())
	}
	if near := spell.Close(name, names); near != "" {
		return fmt.Sprintf(", did you mean %s?", strings.TrimPrefix(filepath.Join(dir, near), "./"))
	}
	return ""
}

// oneLine joins the lines of a message, and escapes control characters.
func oneLine(s string) string {
	var lines []string
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, strings.Join(lines, "; "))
}

// warn writes a warning.
func warn(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintln(cmd.ErrOrStderr(), "essmc: warning: "+oneLine(fmt.Sprintf(format, args...)))
}

// note writes what a user may want to know, and need not act on.
func note(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintln(cmd.ErrOrStderr(), "essmc: note: "+oneLine(fmt.Sprintf(format, args...)))
}

// onWarning is a handler of log records that takes the messages of warnings.
type onWarning func(message string)

func (f onWarning) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (f onWarning) Handle(_ context.Context, r slog.Record) error {
	f(r.Message)
	return nil
}

func (f onWarning) WithAttrs([]slog.Attr) slog.Handler { return f }

func (f onWarning) WithGroup(string) slog.Handler { return f }
