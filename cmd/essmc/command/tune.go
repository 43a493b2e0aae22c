package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/cmd/essmc/command/internal/tune"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/runtime/cpu"
)

func newTuneCommand() *cobra.Command {
	var file string
	var show, reset bool
	var out target
	var on device
	cmd := &cobra.Command{
		Use:     "tune",
		Short:   "Measure this machine, for the choice of forms",
		GroupID: groupRun,
		Long: `Tune measures the constants of the cpu backend's cost model on this machine, in a second
or two of processor time: the times of a step of a recurrence, of a Fourier transform,
of a correlation, and of memory accesses. Commands that run models then use them to
choose between scan, chunked, fft and direct; essmc explain shows the constants in use.
They affect nothing else. Other programs disturb the measurement little if one core is
idle.

The results are in a file below the user's cache directory, one per type of processor
and variant of the kernels. Cards are not measured: --device cuda chooses between scan,
direct and fft, and between tiles of products, by sizes and fixed estimates, so that
equal cards give equal answers. --kernel asks for a form.
` + tune.Variable + ` names another file, or is "` + tune.Off + `".`,
		Example: `  essmc tune
  essmc tune --show
  essmc tune --reset
  essmc tune -o machine.json`,
		Args: args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if on.kind() != deviceCPU {
				return usagef("%s: --device %s is not measured: %s", cmd.CommandPath(), on.value, untuned[on.kind()])
			}
			path := file
			if path == "" {
				var err error
				if path, err = tune.Path(); err != nil {
					return err
				}
				if path == "" {
					return usagef("%s: %s is %q: -o FILE is needed for the results", cmd.CommandPath(), tune.Variable,
						tune.Off)
				}
			}
			if !show && (file != "" || os.Getenv(tune.Variable) != "") { // the file in the cache belongs to essmc
				if err := out.check(path, tuneFile, ""); err != nil {
					return err
				}
			}
			switch {
			case show && reset:
				return usagef("%s: --show and --reset exclude each other", cmd.CommandPath())
			case show:
				return showTuned(cmd.OutOrStdout(), path)
			case reset:
				if err := files.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
				cmd.Printf("deleted %s: default constants are used\n", path)
				return nil
			}
			step, done := bar(cmd, cpu.TuneSteps, "measuring")
			defer done()
			c, err := cpu.MeasureCosts(cmd.Context(), step)
			if err != nil {
				return err
			}
			done()
			f := tune.New(c)
			if err := f.Write(path); err != nil {
				return err
			}
			if err := printCosts(cmd.OutOrStdout(), f); err != nil {
				return err
			}
			cmd.Printf("%s\n", path)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "use `FILE` in place of the one below the cache directory")
	complete(cmd, "output", filesOf("json"))
	out.register(cmd)
	deviceVar(cmd, &on, "device", "the device to measure: only cpu is")
	cmd.Flags().BoolVar(&show, "show", false, "show the stored results")
	cmd.Flags().BoolVar(&reset, "reset", false, "delete the stored results")
	return cmd
}

// untuned says why devices are not measured.
var untuned = map[string]string{
	deviceRef: "it evaluates each operator as it is defined",
	deviceCUDA: "it chooses between scan, direct and fft, and between tiles of products, by sizes and fixed " +
		"estimates, so that equal cards give equal answers; --kernel asks for a form",
}

func showTuned(w io.Writer, path string) error {
	f, err := tune.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: this machine has not been measured, so default constants are used; run essmc tune", path)
	}
	if err != nil {
		return fmt.Errorf("%w; run essmc tune again", err)
	}
	fmt.Fprintf(w, "measured %s\n", f.Time.Format("2006-01-02 15:04 MST"))
	return printCosts(w, f)
}

// printCosts prints constants beside the default ones.
func printCosts(w io.Writer, f *tune.File) error {
	fmt.Fprintf(w, "%s, kernels %s\n", f.Machine, f.Kernels)
	d := cpu.DefaultCosts()
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	columns := []table.Column{{Title: "constant"}, {Title: "measured", Right: true}, {Title: "default", Right: true},
		{Title: "unit"}}
	return table.Print(w, columns, [][]string{
		{"recurrence", number(f.Costs.Scan), number(d.Scan), "ns per step of one complex state"},
		{"recurrence, complex", number(f.Costs.ComplexScan), number(d.ComplexScan),
			"ns, with complex inputs or a window"},
		{"Fourier transform", number(f.Costs.FFT), number(d.FFT), "ns per number and radix-2 step"},
		{"memory", number(f.Costs.Pass), number(d.Pass), "ns per float32, written and read"},
		{"call", number(f.Costs.Call), number(d.Call), "ns per sequence, of fft and direct"},
		{"correlation", number(f.Costs.Direct), number(d.Direct), "GFLOP/s, float32"},
		{"correlation, output", number(f.Costs.Output), number(d.Output), "ns per number"},
		{"matrix by vector", number(f.Costs.Dense), number(d.Dense), "GFLOP/s, float64"},
		{"matrix by matrix", number(f.Costs.Gemm), number(d.Gemm), "GFLOP/s, float32"},
	})
}

// tuned returns the measurement of this machine, or nil. If there is one for another machine, tuned warns.
func tuned(cmd *cobra.Command) *tune.File {
	path, err := tune.Path()
	if err != nil || path == "" {
		return nil // without a home directory there is no measurement
	}
	f, err := tune.Read(path)
	if errors.Is(err, fs.ErrNotExist) && os.Getenv(tune.Variable) == "" {
		return nil
	}
	if err != nil {
		warn(cmd, "%v; default constants are used; run essmc tune again", err)
		return nil
	}
	return f
}

// tunedOptions returns the options of the cpu backend for this machine.
func tunedOptions(cmd *cobra.Command) []cpu.Option { return withCosts(tuned(cmd)) }
