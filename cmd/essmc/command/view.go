package command

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/runtime"
)

func newViewCommand() *cobra.Command {
	var s shape
	var file string
	var out target
	var timed bool
	var source sourceFlags
	cmd := &cobra.Command{
		Use:     "view MODEL",
		Short:   "Draw the graph of a model, and open it in the browser",
		GroupID: groupLook,
		Long: `View writes a page that draws the graph of a model before the passes and after each of
them, and opens it in the browser. Without -o the page is in the folder for temporary
files. View prints its name; where there is no browser, open it yourself.

The page is one file that loads nothing, so it can be sent or stored. Scroll or drag to
move, and hold Ctrl while scrolling to zoom. A click on a node shows its attributes,
inputs and outputs. Colors show what a pass has added and changed, and "Before" what it
has removed. --bench also runs the model and shows the time and form of each step.`,
		Example: `  essmc view model
  essmc view model.onnx -o graph.html
  essmc view model --bench --shape 1x4096`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				if err := out.check(file, pageFile, args[0]); err != nil {
					return err
				}
			}
			var page pageMaker
			m, err := readModel(cmd, args[0], open.Options{Shapes: s.named, Skip: source.skip, Observe: page.observe})
			if err != nil {
				return wrongSource(args[0], err)
			}
			g, failed := busy(cmd, "compiling", m.Graph)
			if page.plan(m, g); failed == nil && timed {
				failed = page.measure(cmd, m, s, runtime.Options{Copy: ownCopy(m)})
			}
			if len(page.Columns) == 0 {
				return failed
			}
			if file == "" {
				if file, err = temporary(m.Name); err != nil {
					return err
				}
			}
			if err := page.write(file, args[0]); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), file)
			if failed != nil { // the page shows how far the passes came
				return failed
			}
			return browse(file)
		},
	}
	modelCompletion(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "", "write the page to `FILE` (default: a temporary file)")
	complete(cmd, "output", filesOf("html"))
	cmd.Flags().BoolVar(&timed, "bench", false, "run the model, and show the time and form of each step")
	cmd.Flags().Var(&s, "shape", "sizes for --bench: samples x steps, or by name (default 1x1024)")
	source.registerSkip(cmd)
	out.register(cmd)
	return cmd
}

// temporary returns the name of a page in a new folder, which only this user can read.
func temporary(model string) (string, error) {
	dir := filepath.Join(os.TempDir(), "essmc-view-"+rand.Text()[:12])
	if err := files.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(filepath.Clean(model))+".html"), nil
}

// browse opens a page with the system's command for it. It does nothing where there is none, or no screen.
func browse(file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	var command []string
	switch goruntime.GOOS {
	case "darwin":
		command = []string{"open", path}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", path}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" && os.Getenv("BROWSER") == "" {
			return nil
		}
		command = []string{"xdg-open", path}
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return nil //nolint:nilerr // the name of the page is printed
	}
	c := exec.Command(program, command[1:]...)
	if err := c.Start(); err != nil {
		return nil //nolint:nilerr // as above
	}
	return c.Process.Release()
}
