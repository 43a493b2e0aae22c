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

	"github.com/essmc/essmc/frontend/tokenizer"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// maxTexts bounds the bytes of a file of texts.
const maxTexts = 1 << 30

// readTexts returns the texts that flags give: each is a text, or @FILE with one text per line.
func readTexts(specs []string) ([]string, error) {
	var texts []string
	for _, s := range specs {
		name, isFile := strings.CutPrefix(s, "@")
		if !isFile {
			texts = append(texts, s)
			continue
		}
		f, err := files.Open(name)
		if err != nil {
			return nil, err
		}
		lines, err := textLines(f, name)
		f.Close()
		if err != nil {
			return nil, err
		}
		texts = append(texts, lines...)
	}
	return texts, nil
}

// textLines returns the lines of a file. Each ends with \n; nothing else is removed, and empty lines are texts.
func textLines(r io.Reader, name string) ([]string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxTexts+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > maxTexts {
		return nil, fmt.Errorf("%s: expected at most %d bytes of text; split the file", name, maxTexts)
	}
	if len(b) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n"), nil
}

// openTokenizer reads a tokenizer from a tokenizer.json, or from a directory with one and its configuration.
func openTokenizer(path string) (*tokenizer.Tokenizer, error) {
	st, err := files.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return tokenizer.ReadFile(path)
	}
	k, err := tokenizer.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: holds no %s; save one with tokenizer.save_pretrained(%q) in Python", path,
			tokenizer.FileName, path)
	}
	return k, err
}

// modelTokenizer reads the tokenizer of a model: the one that a flag names, or the one in the model's directory or
// beside the model's file. It also returns its file. or is what else a user can do without one.
func modelTokenizer(flag, model, or string) (*tokenizer.Tokenizer, string, error) {
	if flag != "" {
		k, err := openTokenizer(flag)
		return k, flag, err
	}
	st, err := files.Stat(model)
	if err != nil {
		return nil, "", err
	}
	dir := model
	if !st.IsDir() {
		dir = filepath.Dir(model)
	}
	file := filepath.Join(dir, tokenizer.FileName)
	k, err := tokenizer.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: expected a language model with its %s, found no %s; name it with --tokenizer FILE%s",
			model, tokenizer.FileName, file, or)
	}
	return k, file, err
}

// textFlags are the flags for inputs that are texts.
type textFlags struct {
	texts     []string
	tokenizer string
}

func (f *textFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.texts, "text", nil, "read a text `TEXT` or, a line each, texts from @FILE; can be "+
		"repeated")
	cmd.Flags().StringVar(&f.tokenizer, "tokenizer", "", "read `FILE`, a tokenizer.json, or its directory (default: "+
		"beside the model)")
	complete(cmd, "tokenizer", filesOf("json"))
}

// inputs returns the tensors of the texts for the inputs of a model that are named after them; nil without texts.
func (f *textFlags) inputs(cmd *cobra.Command, model string, ports []runtime.Port) (map[string]tensor.Datum, error) {
	if len(f.texts) == 0 {
		if f.tokenizer != "" {
			return nil, usagef("%s: --tokenizer needs --text", cmd.CommandPath())
		}
		return nil, nil
	}
	texts, err := readTexts(f.texts)
	if err != nil {
		return nil, err
	}
	if len(texts) == 0 {
		return nil, usagef("%s: --text: expected at least one text, found none", cmd.CommandPath())
	}
	to, err := textPorts(ports)
	if err != nil {
		return nil, err
	}
	k, path, err := modelTokenizer(f.tokenizer, model, "")
	if err != nil {
		return nil, err
	}
	o := tokenizer.Options{}
	if most := k.Config().MaxLength; most > 0 && k.Truncation() == nil {
		o.Truncation = &tokenizer.Truncation{MaxLength: most}
	}
	batch, err := k.Encode(cmd.Context(), texts, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, e := range batch.Encodings {
		if o.Truncation != nil && e.Len() == o.Truncation.MaxLength {
			note(cmd, "text %d: may be cut to %d tokens, the model_max_length of the tokenizer", i+1, e.Len())
		}
	}
	names := make([]string, 0, len(to))
	for name := range to {
		names = append(names, name)
	}
	slices.Sort(names)
	all, err := batch.Tensors(names...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out := map[string]tensor.Datum{}
	for name, port := range to {
		t := all[name].(*tensor.Tensor)
		if typ, ok := port.Type.(*ir.TensorType); ok && typ.Elem != t.DType() {
			if t, err = t.Convert(typ.Elem, false); err != nil {
				return nil, fmt.Errorf("input %q: %w", port.Name, err)
			}
		}
		out[port.Name] = t
	}
	return out, nil
}

// textPorts returns the inputs of a model that a tokenizer fills, by the tokenizer's names of them.
func textPorts(ports []runtime.Port) (map[string]runtime.Port, error) {
	to := map[string]runtime.Port{}
	var integers []runtime.Port
	for _, p := range ports {
		switch p.Name {
		case "input_ids", "attention_mask", "token_type_ids", "position_ids":
			to[p.Name] = p
		}
		if t, ok := p.Type.(*ir.TensorType); ok && t.Elem.IsInt() && len(t.Shape) == 2 && !p.Optional {
			integers = append(integers, p)
		}
	}
	if _, ok := to["input_ids"]; !ok && len(integers) == 1 {
		to["input_ids"] = integers[0]
	}
	if _, ok := to["input_ids"]; !ok {
		var names []string
		for _, p := range ports {
			names = append(names, p.Name)
		}
		return nil, fmt.Errorf("--text: expected a model with an input input_ids of tokens, found %s",
			strings.Join(names, ", "))
	}
	return to, nil
}
