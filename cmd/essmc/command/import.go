package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/irtext"
)

func newImportCommand() *cobra.Command {
	var text string
	var asJSON bool
	var s shape
	var out target
	cmd := &cobra.Command{
		Use:     "import FILE.onnx [-o IR.txt]",
		Short:   "Describe an ONNX file: its header, its content, its unsupported operators",
		GroupID: groupStart,
		Long: `Import reads an ONNX file and shows its header (producer, operator sets, functions,
dynamic axes), and then the output of "essmc inspect". If operators are not supported,
it lists them all with their nodes, and the exit code is 1.

-o writes the graph of the file as IR text, with large weights in a file beside it. The
text can be used as a MODEL. Importing is optional: an ONNX file is a MODEL too.`,
		Example: `  essmc import model.onnx
  essmc import model.onnx -o model.txt --shape input=1,L,64
  essmc import model.onnx --json`,
		Args: args("FILE.onnx"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(text, textFile, args[0]); err != nil {
				return err
			}
			m, err := readModel(cmd, args[0], open.Options{Shapes: s.named})
			if m == nil {
				return err
			}
			if m.Kind != open.ONNX {
				return fmt.Errorf("%s: expected an ONNX model, found %v", args[0], m.Kind)
			}
			r := importReport{File: fileReportOf(args[0], m.Info)}
			if err != nil {
				if r.File.unsupported(err); asJSON {
					return errors.Join(writeJSON(cmd.OutOrStdout(), r), err)
				}
				return errors.Join(r.File.print(cmd.OutOrStdout()), err)
			}
			if text != "" {
				g, err := m.Source()
				if err != nil {
					return err
				}
				if err := irtext.WriteFile(text, g); err != nil {
					return err
				}
			}
			r.Model, err = busy(cmd, "compiling", func() (*inspection,
				error) {
				return inspect(m, s, tunedOptions(cmd))
			})
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			if err := r.File.print(cmd.OutOrStdout()); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout())
			if err := r.Model.print(cmd.OutOrStdout()); err != nil {
				return err
			}
			if text != "" {
				cmd.Printf("\n%s  the graph as text\n", text)
			}
			return nil
		},
	}
	modelCompletion(cmd)
	cmd.Flags().StringVarP(&text, "output", "o", "", "write the graph as text to `IR.txt`")
	complete(cmd, "output", filesOf("txt"))
	out.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.Flags().Var(&s, "shape", "fix dimensions by name, or give samples x steps for the working memory")
	return cmd
}

// importReport is the result of import. Model is missing if the graph could not be built.
type importReport struct {
	File  fileReport  `json:"file"`
	Model *inspection `json:"model,omitempty"`
}

// fileReport is the description in an ONNX file.
type fileReport struct {
	Path        string            `json:"path"`
	IRVersion   int64             `json:"ir_version"`
	Producer    string            `json:"producer,omitempty"`
	Domain      string            `json:"domain,omitempty"`
	Doc         string            `json:"doc,omitempty"`
	Opsets      map[string]int    `json:"opsets"`
	Domains     []string          `json:"domains"`
	Functions   []string          `json:"functions,omitempty"`
	Dynamic     []axisReport      `json:"dynamic_axes,omitempty"`
	Defaults    []string          `json:"inputs_with_defaults,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Notes       []string          `json:"notes,omitempty"`
	Warnings    []string          `json:"warnings,omitempty"`
	Unsupported []missingReport   `json:"unsupported,omitempty"`
}

// axisReport is an open dimension of an input or output.
type axisReport struct {
	Value  string `json:"value"`
	Axis   int    `json:"axis"`
	Symbol string `json:"symbol,omitempty"`
}

// missingReport is an operator that is not supported.
type missingReport struct {
	Op      string   `json:"op"`
	Version int      `json:"version"` // imported version of its domain; 0: none
	Nodes   []string `json:"nodes"`
}

func fileReportOf(path string, info *onnx.Info) fileReport {
	r := fileReport{Path: path, Opsets: map[string]int{}}
	if info == nil {
		return r
	}
	r.IRVersion, r.Domain, r.Doc = info.IRVersion, info.Domain, info.Doc
	r.Producer = strings.TrimSpace(info.Producer + " " + info.ProducerVersion)
	for d, v := range info.Opsets {
		r.Opsets[cmp.Or(d, "ai.onnx")] = v
	}
	for _, d := range info.Domains {
		r.Domains = append(r.Domains, cmp.Or(d, "ai.onnx"))
	}
	r.Functions, r.Defaults, r.Metadata = info.Functions, info.Defaults, info.Metadata
	r.Notes, r.Warnings = info.Notes, info.Warnings
	for _, d := range info.Dynamic {
		r.Dynamic = append(r.Dynamic, axisReport{d.Value, d.Axis, d.Symbol})
	}
	return r
}

// unsupported adds the unsupported operators that an error names, if any.
func (r *fileReport) unsupported(err error) {
	var u *onnx.UnsupportedError
	if !errors.As(err, &u) {
		return
	}
	for _, op := range u.Operators {
		r.Unsupported = append(r.Unsupported, missingReport{cmp.Or(op.Domain, "ai.onnx") + "." + op.Op, op.Version,
			op.Nodes})
	}
}

func (r *fileReport) print(w io.Writer) error {
	if r.IRVersion == 0 {
		return nil // the file could not be read
	}
	line := func(title, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %-10s  %s\n", title, strings.TrimSpace(indent(wrap(oneLine(text), 86), "              ")))
		}
	}
	fmt.Fprintf(w, "%s  ONNX file\n", r.Path)
	line("IR version", strconv.FormatInt(r.IRVersion, 10))
	line("producer", r.Producer)
	line("domain", r.Domain)
	line("about", r.Doc)
	var opsets []string
	for _, d := range slices.Sorted(maps.Keys(r.Opsets)) {
		s := fmt.Sprintf("%s %d", d, r.Opsets[d])
		if !slices.Contains(r.Domains, d) {
			s += " (unused)"
		}
		opsets = append(opsets, s)
	}
	line("opsets", strings.Join(opsets, ", "))
	line("functions", list(r.Functions, 12))
	line("defaults", list(r.Defaults, 12))
	for _, k := range slices.Sorted(maps.Keys(r.Metadata)) {
		line("metadata", k+": "+clip(r.Metadata[k]))
	}
	for _, n := range r.Notes {
		line("note", n)
	}
	for _, n := range r.Warnings {
		line("warning", n)
	}
	if len(r.Dynamic) > 0 {
		fmt.Fprintf(w, "\nDynamic axes\n")
		var rows [][]string
		for _, d := range r.Dynamic {
			rows = append(rows, []string{d.Value, strconv.Itoa(d.Axis), cmp.Or(d.Symbol, "?")})
		}
		if err := table.Print(w, []table.Column{{Title: "value", Width: 60}, {Title: "axis", Right: true},
			{Title: "dimension", Width: 60}}, rows); err != nil {
			return err
		}
	}
	if len(r.Unsupported) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nNot supported\n")
	var rows [][]string
	for _, u := range r.Unsupported {
		version := strconv.Itoa(u.Version)
		if u.Version == 0 {
			version = "not imported"
		}
		rows = append(rows, []string{u.Op, version, oneLine(list(u.Nodes, 8))})
	}
	return table.Print(w, []table.Column{{Title: "operator"}, {Title: "opset", Right: true},
		{Title: "nodes", Width: 60}}, rows)
}

// clip truncates a long text.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
