package command

import (
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/models"
)

func newInitCommand() *cobra.Command {
	var dir string
	var seed uint64
	var set []string
	var force bool
	cmd := &cobra.Command{
		Use:     "init [PRESET -o DIR]",
		Short:   "Make an untrained model from a preset, or list the presets",
		GroupID: groupStart,
		Long: `Init writes a model directory (config.json and model.safetensors) with the sizes of a
preset and initial weights for training: state matrices as the model's paper defines
them, such as HiPPO, and random numbers. Equal seeds give equal files. --set changes a
key of config.json. Without arguments, init lists the presets of all families.`,
		Example: `  essmc init
  essmc init image -o model
  essmc init mamba-130m -o small --set hidden_size=64 --set num_hidden_layers=2
  essmc init sc10 -o model --seed 7 --set layer.bidirectional=false --set n_layers=4`,
		Args: args("[PRESET]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if dir != "" || len(set) > 0 {
					return usagef("%s: PRESET is missing; %s lists the presets", cmd.CommandPath(), cmd.CommandPath())
				}
				return listPresets(cmd.OutOrStdout())
			}
			if dir == "" {
				return usagef("%s: -o DIR is missing; try %s %s -o model", cmd.CommandPath(), cmd.CommandPath(),
					quoted(args[0]))
			}
			p, err := preset(args[0])
			if err != nil {
				return err
			}
			for _, s := range set {
				key, value, ok := strings.Cut(s, "=")
				if !ok {
					return usagef("--set %s: expected KEY=VALUE", s)
				}
				if err := p.Config.Settings().Set(key, value); err != nil {
					return usagef("--set %s: %v", s, err)
				}
			}
			if err := p.Config.Validate(); err != nil {
				return usagef("--set: %v", err)
			}
			if !force {
				if err := checkFree(dir); err != nil {
					return err
				}
			}
			w, err := busy(cmd, "drawing weights", func() (models.Weights, error) { return p.Init(p.Config, seed) })
			if err != nil {
				return err
			}
			n, err := models.Parameters(p.Config, w)
			if err != nil {
				return err
			}
			if err := writeModel(cmd, dir, p.Config, w, force); err != nil {
				return err
			}
			cmd.Printf("%s  %s, %s parameters, seed %d\n", dir, p.ID, grouped(int64(n)), seed)
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var out []string
			if len(args) == 0 {
				for _, p := range models.Presets() {
					out = append(out, cobra.CompletionWithDesc(p.ID, p.Doc))
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
	outputDirVar(cmd, &dir)
	cmd.Flags().Uint64Var(&seed, "seed", 0, "seed of the random numbers")
	cmd.Flags().StringArrayVar(&set, "set", nil, "set a key of config.json: `KEY=VALUE`; can be repeated")
	complete(cmd, "set", func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, p := range models.Presets() {
			if len(args) == 1 && p.ID == args[0] {
				for _, k := range p.Config.Settings().Keys() {
					out = append(out, k+"=")
				}
			}
		}
		return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
	forceVar(cmd, &force)
	return cmd
}

func outputDirVar(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVarP(dir, "output", "o", "", "write the model to `DIR`")
	complete(cmd, "output", directories)
}

func forceVar(cmd *cobra.Command, force *bool) {
	cmd.Flags().BoolVarP(force, "force", "f", false, "replace the model in DIR")
}

// preset finds a preset. The error proposes the nearest name, or the presets of the family that is named.
func preset(id string) (models.Preset, error) {
	var ids, family []string
	for _, p := range models.Presets() {
		if p.ID == id {
			return p, nil
		}
		if ids = append(ids, p.ID); p.Config.Type() == id {
			family = append(family, p.ID)
		}
	}
	if len(family) > 0 {
		return models.Preset{}, usagef("no preset %q; presets of this family: %s", id, strings.Join(family, ", "))
	}
	return models.Preset{}, usagef("no preset %q%s; essmc init lists the presets", id, didYouMean(id, ids))
}

func listPresets(w io.Writer) error {
	columns := []table.Column{{Title: "preset"}, {Title: "family"}, {Title: "input"}, {Title: "steps", Right: true},
		{Title: "layers", Right: true},
		{Title: "d_model", Right: true}, {Title: "outputs", Right: true}, {Title: "parameters", Right: true},
		{Title: "direction"}, {Title: "task"}}
	var rows [][]string
	for _, p := range models.Presets() {
		n, err := models.Parameters(p.Config, nil)
		if err != nil {
			return err
		}
		c := p.Config.Common()
		direction := "both"
		if c.Causal {
			direction = "causal"
		}
		rows = append(rows, []string{p.ID, p.Config.Type(), c.Input, strconv.Itoa(p.Length), strconv.Itoa(c.Layers),
			strconv.Itoa(c.Width), strconv.Itoa(c.Outputs), grouped(int64(n)), direction, p.Doc})
	}
	return table.Print(w, columns, rows)
}

// fileBeside is a file of a model directory that is no part of the model.
type fileBeside struct {
	name string
	data []byte
}

// writeModel writes a complete model directory with the files beside the model, or nothing. If replace is set, there
// may be a model already.
func writeModel(cmd *cobra.Command, dir string, c models.Config, w models.Weights, replace bool,
	beside ...fileBeside) error {
	defer spin(cmd, "writing")()
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	fill := func(dir string) error {
		if err := checkpoint.WriteDir(dir, c, w); err != nil {
			return err
		}
		for _, f := range beside {
			write := func(w io.Writer) error { _, err := w.Write(f.data); return err }
			if err := atomicfile.Write(filepath.Join(dir, f.name), write); err != nil {
				return err
			}
		}
		return nil
	}
	if replace && checkEmpty(dir) != nil {
		return fill(dir)
	}
	s, err := newStage(dir)
	if err != nil {
		return err
	}
	defer s.discard()
	if err := fill(s.temp); err != nil {
		return s.rename(err)
	}
	return s.commit()
}
