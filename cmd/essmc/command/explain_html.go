package command

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irview"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
)

// pageMaker collects what the page of a model shows.
type pageMaker struct{ irview.Page }

// observe adds the graph after a pass.
func (p *pageMaker) observe(s passes.Snapshot) {
	c := irview.Column{Name: "as written"}
	if s.Pass != nil {
		c.Name, c.Doc, c.Notes, c.Changes = s.Pass.Name, s.Pass.Doc, s.Event.Notes, s.Event.Changes
	}
	if s.Failure != nil {
		c.Err = s.Failure.Error()
	}
	if s.Graph != nil {
		c.Graph = s.Graph.Clone()
	}
	p.Columns = append(p.Columns, c)
}

// plan adds the only graph of a plan, with its history.
func (p *pageMaker) plan(m *open.Model, g *ir.Graph) {
	if m.Kind == open.Plan && g != nil {
		p.Columns = []irview.Column{{Name: "plan", Notes: historyLines(g.History), Graph: g}}
	}
}

// write writes the page, also of a model in which a pass has failed. It writes nothing if there is no graph.
func (p *pageMaker) write(file, model string) error {
	if len(p.Columns) == 0 {
		return nil
	}
	p.Title = filepath.Base(filepath.Clean(model))
	return atomicfile.Write(file, func(w io.Writer) error { return irview.HTML(w, p.Page) })
}

// measure runs the model on random inputs, and adds the time of its steps.
func (p *pageMaker) measure(cmd *cobra.Command, m *open.Model, s shape, o runtime.Options) error {
	if len(o.Outputs) == 0 {
		var err error
		if o.Outputs, err = answers(m); err != nil {
			return err
		}
	}
	o.Profile = true
	model, err := m.Compile(o)
	if err != nil {
		return err
	}
	defer model.Close()
	sizes, err := s.sizes(model.Graph(), m.Dims, takes(model))
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	var none inputFlags
	in, err := none.someInputs(cmd, model, sizes.dims)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	r := &benchmark{Runs: profiledRuns}
	if err := r.profile(cmd, model, in); err != nil {
		return err
	}
	for _, step := range r.Ops {
		p.Regions = append(p.Regions, irview.Region{Name: step.Name, Op: step.Op, Form: step.Form,
			Time: time.Duration(step.MS * 1e6), Values: step.values})
	}
	p.Setting = strings.Join([]string{cmp.Or(sizes.text, "fixed sizes"), plural(profiledRuns, "run")}, ", ")
	return nil
}
