package graphfuzz

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Report is a fault that was found, with a case that shows it.
type Report struct {
	Seed    uint64
	Case    *Case // the smallest one
	Way     Way
	Finding *Finding
	// Key is the same for faults that look alike.
	Key string
}

// Hunt makes and checks the case of a seed. If it shows a fault, seen says how often one like it was found: the case is
// made smaller the first time.
func (c *Checker) Hunt(seed uint64, limit time.Duration, seen func(key string) int) *Report {
	return c.hunt(FromSeed(seed), seed, limit, seen)
}

func (c *Checker) hunt(s *Source, seed uint64, limit time.Duration, seen func(key string) int) *Report {
	cs, err := Generate(s)
	if err != nil {
		r := &Report{Seed: seed, Finding: &Finding{"generate", err.Error()}}
		r.Key = keyOf(r)
		return r
	}
	if cs == nil {
		return nil
	}
	w := Ways(s)
	f := c.Check(cs, w)
	if f == nil {
		return nil
	}
	r := &Report{seed, cs, w, f, ""}
	r.Key = keyOf(r)
	if seen != nil && seen(r.Key) > 0 {
		return r
	}
	quiet := &Checker{Other: c.Other}
	r.Case = Shrink(copyOf(cs), limit, func(k *Case) bool {
		g := quiet.Check(k, w)
		if g == nil || g.Kind != f.Kind {
			return false
		}
		f = g
		return true
	})
	r.Finding = f
	r.Key = keyOf(r)
	return r
}

var detail = regexp.MustCompile(`[vxc]\d+_*|-?\d+(\.\d+)?(e[-+]?\d+)?|NaN|[-+]?Inf`)

// keyOf returns a text that is the same for faults that look alike: the kind, the words of the message, and the
// operators of a small case.
func keyOf(r *Report) string {
	line, _, _ := strings.Cut(r.Finding.Msg, "\n")
	key := r.Finding.Kind + ": " + detail.ReplaceAllString(line, "#")
	if r.Case != nil && len(r.Case.Graph.Nodes) <= 4 {
		for _, n := range r.Case.Graph.Nodes {
			key += " " + n.Op.FullName()
		}
	}
	return key
}

// File returns a name, which kind and seed give, and the content of a file for a report.
func (r *Report) File() (name string, text []byte) {
	name = fmt.Sprintf("%s-%d.txtar", strings.ReplaceAll(r.Finding.Kind, " ", "-"), r.Seed)
	if r.Case == nil {
		return name, []byte(r.Finding.String() + "\n")
	}
	text, err := Format(r.Case, r.Way, firstLine(fmt.Sprintf("seed %d: %s", r.Seed, r.Finding)))
	if err != nil {
		text = []byte(fmt.Sprintf("%s\n%v\n", r.Finding, err))
	}
	return name, text
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
