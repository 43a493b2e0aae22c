package command

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/states"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm/modes"
)

// stateFiles are the formats of inspect --states.
var stateFiles = map[string]fileKind{".html": pageFile, ".csv": beginsWith("a table of states", states.CSVHeader),
	".png": pngFile}

// checkStates checks the flags of inspect --states.
func checkStates(cmd *cobra.Command, on bool, file, model string, out *target, asJSON bool) error {
	switch ext := strings.ToLower(filepath.Ext(file)); {
	case !on && file == "":
		return nil
	case !on:
		return usagef("%s: -o writes the states; expected --states with it", cmd.CommandPath())
	case asJSON:
		return usagef("%s: expected --states or --json, found both; --states -o FILE.csv writes a row for each state",
			cmd.CommandPath())
	case file == "":
		return nil
	case stateFiles[ext].is == nil:
		return usagef("%s: -o %s: expected a name that ends in .html, .csv or .png", cmd.CommandPath(), file)
	default:
		return out.check(file, stateFiles[ext], model)
	}
}

// inspectStates prints the systems of a model, or writes them to a file.
func inspectStates(cmd *cobra.Command, m *open.Model, file string) error {
	r, err := busy(cmd, "reading systems", func() (*modes.Report, error) { return systems(cmd, m) })
	if err != nil {
		return err
	}
	if len(r.Systems) == 0 {
		if len(r.Others) > 0 {
			shown := append(slices.Clone(r.Others[:1]), fmt.Sprintf("and %d more", len(r.Others)-1))
			if len(r.Others) == 1 {
				shown = shown[:1]
			}
			return fmt.Errorf("%s: no eigenvalues: %s", m.Name, strings.Join(shown, "; "))
		}
		return fmt.Errorf("%s: no state-space layers: expected a model with one; essmc explain --why lists layers "+
			"that were almost recognized", m.Name)
	}
	if file == "" {
		return states.Text(cmd.OutOrStdout(), r)
	}
	return atomicfile.Write(file, func(w io.Writer) error {
		switch strings.ToLower(filepath.Ext(file)) {
		case ".csv":
			return states.CSV(w, r)
		case ".png":
			return states.PNG(w, r)
		}
		return states.HTML(w, filepath.Base(filepath.Clean(m.Name)), r)
	})
}

// systems reads the source graph, which has step sizes, or the compiled graph if layers are only recognized there.
func systems(cmd *cobra.Command, m *open.Model) (*modes.Report, error) {
	read := func(graph func() (*ir.Graph, error)) (*modes.Report, error) {
		g, err := graph()
		if err != nil {
			return nil, err
		}
		r, err := modes.Of(g, modes.Options{Context: cmd.Context()})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		return r, nil
	}
	r, err := read(m.Source)
	if err != nil || len(r.Systems) > 0 || m.Kind == open.Plan || m.Kind == open.Directory {
		return r, err
	}
	return read(m.Graph)
}
