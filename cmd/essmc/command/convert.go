package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

func newConvertCommand() *cobra.Command {
	var dir string
	var o checkpoint.Options
	var force bool
	var b bounds
	cmd := &cobra.Command{
		Use:     "convert FILE -o DIR [--config FILE.yaml|FILE.json] [--prefix P]",
		Short:   "Convert a checkpoint to a model directory",
		GroupID: groupStart,
		Long: `Convert writes a model directory from a checkpoint. Nothing in the file is executed.

FILE is a Lightning checkpoint (.ckpt) or a state dict (.pt, of torch.save). The
configuration of the authors' training code is in the checkpoint (hyper_parameters), or
in the file given by --config. For a state dict of any other family, such as Mamba or
S5, --config is a config.json as in a model directory, with model_type. FILE can then
also be a .safetensors file. Convert lists the settings that it drops, which are
irrelevant for inference.

FILE can also be a checkpoint of S5 or LRU in flax's msgpack, or a folder with
checkpoint_N, with the options of the command line in args.json beside it.

--prefix net takes the tensors whose names begin with net., and cuts that off; others are
left out. Names that begin with module. (DataParallel), or that contain _orig_mod.
(torch.compile), need no --prefix. With it, FILE can be a model directory, too.`,
		Example: `  essmc convert last.ckpt -o model
  essmc convert weights.pt --config config.yaml -o model
  essmc convert mamba.pt --config config.json -o model
  essmc convert trained --prefix net -o model
  essmc convert s5-run -o model`,
		Args: args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return usagef("%s: -o DIR is missing; try %s %s -o %s", cmd.CommandPath(), cmd.CommandPath(),
					quoted(args[0]), quoted(outputName(args[0], "-model")))
			}
			if changed(cmd, "prefix") && strings.Trim(o.Prefix, ".") == "" {
				return usagef("%s: --prefix %s: expected the beginning of the names of tensors, as in net",
					cmd.CommandPath(), quoted(o.Prefix))
			}
			if !force {
				if err := checkFree(dir); err != nil {
					return err
				}
			}
			done := spin(cmd, "converting")
			o.Context, o.Bytes = cmd.Context(), b.memory.value
			c, w, notes, err := checkpoint.Convert(args[0], o)
			done()
			if err != nil {
				return otherKind(cmd, args[0], err)
			}
			size := int64(0)
			for _, t := range w {
				size += int64(tensor.ByteSize(t.DType(), t.Len()))
			}
			if err := b.checkWeights(args[0], size); err != nil {
				return err
			}
			n, err := models.Parameters(c, w)
			if err != nil {
				return err
			}
			beside, err := filesBeside(args[0])
			if err != nil {
				return err
			}
			if err := writeModel(cmd, dir, c, w, force, beside...); err != nil {
				return err
			}
			for _, note := range gather(notes) {
				cmd.Printf("note: %s\n", strings.TrimSpace(indent(wrap(oneLine(note), 94), "      ")))
			}
			cmd.Printf("%s  %d layers, %s parameters\n", dir, c.Common().Layers, grouped(int64(n)))
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"ckpt", "pt", "pth", "safetensors"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	outputDirVar(cmd, &dir)
	cmd.Flags().StringVar(&o.Config, "config", "", "read the configuration from `FILE`: a config.json, or with the "+
		"authors' names")
	cmd.Flags().StringVar(&o.Prefix, "prefix", "", "take the tensors whose names begin with `P`, without it")
	complete(cmd, "prefix", cobra.NoFileCompletions)
	complete(cmd, "config", filesOf("yaml", "yml", "json"))
	forceVar(cmd, &force)
	b.registerBounds(cmd)
	return cmd
}

// otherKind returns the error for a file that is not a checkpoint: one that says what to do with a model, and otherwise
// err.
func otherKind(cmd *cobra.Command, path string, err error) error {
	st, statErr := files.Stat(path)
	if statErr != nil || !st.Mode().IsRegular() || st.Size() == 0 {
		return err
	}
	e, readErr := readExisting(path, st.Size())
	if readErr != nil {
		return err
	}
	i := slices.IndexFunc(fileKinds, func(k fileKind) bool { return k.is(e) })
	if i < 0 || fileKinds[i].name == npzFile.name { // a zip archive, as those of torch
		return err
	}
	what := ""
	switch fileKinds[i].name {
	case planFile.name:
		what = ", which essmc run takes as it is"
	case onnxFile.name, textFile.name:
		what = ", which essmc compile takes as it is"
	}
	return fmt.Errorf("%s: expected a checkpoint, found %s%s; see %s -h", path, fileKinds[i].name, what,
		cmd.CommandPath())
}

// besideModel are the files of a model directory that are no part of the model, and that other commands read.
var besideModel = []string{"tokenizer.json", "generation_config.json"}

// maxBeside bounds such a file: the bound of tokenizers.
const maxBeside = 128 << 20

// filesBeside reads the files in besideModel, if the path is a model directory or its weights.
func filesBeside(path string) (list []fileBeside, err error) {
	st, err := files.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		path = filepath.Dir(path)
	}
	if _, err := files.Stat(filepath.Join(path, checkpoint.ConfigName)); err != nil {
		return nil, nil
	}
	for _, name := range besideModel {
		f, err := files.Open(filepath.Join(path, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(io.LimitReader(f, maxBeside+1))
		f.Close()
		if err != nil {
			return nil, err
		}
		if len(b) > maxBeside {
			return nil, fmt.Errorf("%s: more than %d bytes", filepath.Join(path, name), maxBeside)
		}
		list = append(list, fileBeside{name, b})
	}
	return list, nil
}

// gather joins notes ("KEY: TEXT") of several keys with the same text, in the order of the first of them.
func gather(notes []string) []string {
	var order []string
	keys := map[string][]string{}
	for _, n := range notes {
		what, key := n, ""
		if i := strings.LastIndex(n, ": "); i >= 0 {
			key, what = n[:i], n[i+2:]
		}
		if keys[what] == nil {
			order = append(order, what)
		}
		keys[what] = append(keys[what], key)
	}
	var out []string
	for _, what := range order {
		switch k := keys[what]; {
		case len(k) == 1 && k[0] == "":
			out = append(out, what)
		case len(k) == 1:
			out = append(out, k[0]+": "+what)
		default:
			out = append(out, what+": "+strings.Join(k, ", "))
		}
	}
	return out
}
