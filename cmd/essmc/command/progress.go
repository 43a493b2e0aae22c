package command

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/essmc/essmc/frontend/open"
)

// onTerminal returns the command's standard error if that is a terminal, and nil otherwise.
func onTerminal(cmd *cobra.Command) *os.File {
	f, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}

// bar shows progress, or activity if total is 0, if standard error is a terminal. Call step after each unit, and done
// at the end.
func bar(cmd *cobra.Command, total int, what string) (step func(), done func()) {
	if total == 0 {
		return func() {}, spin(cmd, what)
	}
	f := onTerminal(cmd)
	if f == nil {
		return func() {}, func() {}
	}
	b := progressbar.NewOptions(total,
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish())
	return func() { _ = b.Add(1) }, func() { _ = b.Clear() }
}

// busy shows activity while do runs.
func busy[T any](cmd *cobra.Command, what string, do func() (T, error)) (T, error) {
	defer spin(cmd, what)()
	return do()
}

// readModel reads a model, and shows activity meanwhile.
func readModel(cmd *cobra.Command, path string, o open.Options) (*open.Model, error) {
	o.Context = cmd.Context()
	o.Passes = optionsOf(cmd).Passes
	return busy(cmd, "reading", func() (*open.Model, error) { return open.File(path, o) })
}

// spin shows activity of unknown length. Call done at the end.
func spin(cmd *cobra.Command, what string) (done func()) {
	f := onTerminal(cmd)
	if f == nil {
		return func() {}
	}
	b := progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSpinnerType(14),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionClearOnFinish())
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(150 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = b.Add(1)
			case <-stop:
				_ = b.Clear()
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
