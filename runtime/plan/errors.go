package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kinds of errors, for errors.Is. The errors that wrap them name the file, and the section, node or tensor.
var (
	// ErrNotPlan is the error for a file that does not start with the magic of plans.
	ErrNotPlan = errors.New("not a plan file")
	// ErrCorrupt is the error for a plan that is truncated, altered, or written by a faulty program.
	ErrCorrupt = errors.New("damaged plan")
	// ErrLimit is the error for a plan that exceeds the caller's Limits.
	ErrLimit = errors.New("plan exceeds a limit")
)

// VersionError is the error for a plan in a newer format than this program reads.
type VersionError struct {
	File         string
	Major, Minor int // version of the file
}

// Error names both versions and the remedy.
func (e *VersionError) Error() string {
	if e.Major < 1 {
		return fmt.Sprintf("%s: plan has format version %d.%d, which never existed; compile the model again", e.File,
			e.Major, e.Minor)
	}
	return fmt.Sprintf("%s: plan has format version %d.%d, this program reads up to %d.%d; use a newer essmc, or "+
		"compile the model again with this one",
		e.File, e.Major, e.Minor, Major, Minor)
}

// UnknownOp is an operator in a plan that the resolver does not have.
type UnknownOp struct {
	Domain, Name string
	Since        int      // the version of the domain that defined it
	Nodes        []string // the nodes that apply it
}

// UnknownOpsError lists the operators in a plan that the resolver does not have, sorted.
type UnknownOpsError struct {
	File string
	Ops  []UnknownOp
}

// Error names the operators, their versions, and some of the nodes.
func (e *UnknownOpsError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: this program lacks operators that the plan needs: ", e.File)
	for i, op := range e.Ops {
		if i > 0 {
			b.WriteString("; ")
		}
		name := op.Name
		if op.Domain != "" {
			name = op.Domain + "." + op.Name
		}
		const show = 3
		fmt.Fprintf(&b, "%s version %d (%s", name, op.Since, strings.Join(op.Nodes[:min(show, len(op.Nodes))], ", "))
		if n := len(op.Nodes) - show; n > 0 {
			fmt.Fprintf(&b, " and %d more", n)
		}
		b.WriteByte(')')
	}
	return b.String() + advice(e.Ops)
}

// packages has, for each domain, the package that registers its operators.
var packages = map[string]string{
	"":                         "ops/std",
	"ai.onnx.ml":               "ops/ml",
	"ai.onnx.preview":          "ops/std",
	"ai.onnx.preview.training": "ops/training",
	"com.microsoft":            "ops/microsoft",
	"essm":                     "ops/essm",
}

const module = "github.com/essmc/essmc/"

// Package returns the import path of the package of this module that registers the operators of a domain; "" for
// domains of other modules.
func Package(domain string) string {
	if p := packages[domain]; p != "" {
		return module + p
	}
	return ""
}

// advice names the packages to import for operators.
func advice(ops []UnknownOp) string {
	var imports, others []string
	for _, op := range ops {
		if p := Package(op.Domain); p != "" {
			if line := fmt.Sprintf("import _ %q", p); !slices.Contains(imports, line) {
				imports = append(imports, line)
			}
		} else if !slices.Contains(others, op.Domain) {
			others = append(others, op.Domain)
		}
	}
	text := ""
	if len(imports) > 0 {
		text = "; add " + strings.Join(imports, " and ") +
			", or open the plan by package frontend/open, which has all operators"
	}
	if len(others) > 0 {
		text += fmt.Sprintf("; domain %s is not part of essmc: use a program that registers its operators, such as "+
			"the one that wrote the plan (docs/extending.md)", strings.Join(others, ", "))
	}
	return text
}

// readError is an error of reading the file, not of its content.
type readError struct {
	offset int64
	err    error
}

func (e *readError) Error() string { return fmt.Sprintf("reading at byte %d: %v", e.offset, e.err) }
func (e *readError) Unwrap() error { return e.err }

// classify adds the file's name to an error, and makes it an ErrCorrupt unless it has a kind.
func classify(file string, err error) error {
	var unknown *UnknownOpsError
	var trouble *readError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		unknown.File = file
		return unknown
	case errors.Is(err, ErrLimit), errors.As(err, &trouble):
		return fmt.Errorf("%s: %w", file, err)
	}
	return fmt.Errorf("%s: %w: %w", file, ErrCorrupt, err)
}
