package plan

import (
	"errors"
	"fmt"
	"strings"
)

// Kinds of errors, for errors.Is. The messages of the errors that wrap them name the file, and the section, node or tensor.
var (
	// ErrNotPlan says that the file does not begin as a plan does.
	ErrNotPlan = errors.New("not a plan file")
	// ErrCorrupt says that the file began as a plan and then was not one: it is cut off, altered, or made by a faulty
	// program.
	ErrCorrupt = errors.New("damaged plan")
	// ErrLimit says that the plan is larger than the caller's Limits.
	ErrLimit = errors.New("plan exceeds a limit")
)

// VersionError says that a plan was written in a format that this program does not know.
type VersionError struct {
	File         string
	Major, Minor int // of the file
}

// Error says both versions and what to do.
func (e *VersionError) Error() string {
	if e.Major < 1 {
		return fmt.Sprintf("%s: plan has format version %d.%d, which never existed; compile the model again", e.File, e.Major, e.Minor)
	}
	return fmt.Sprintf("%s: plan has format version %d.%d, this program reads up to %d.%d; use a newer essmc, or compile the model again with this one",
		e.File, e.Major, e.Minor, Major, Minor)
}

// UnknownOp is an operator that a plan needs and the resolver does not have.
type UnknownOp struct {
	Domain, Name string
	Since        int      // the version of the domain that defined it
	Nodes        []string // the nodes that apply it
}

// UnknownOpsError lists every operator that a plan needs and the resolver does not have, sorted.
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
	return b.String()
}

// readError is trouble with reading the file, which says nothing about what it holds.
type readError struct {
	offset int64
	err    error
}

func (e *readError) Error() string { return fmt.Sprintf("reading at byte %d: %v", e.offset, e.err) }
func (e *readError) Unwrap() error { return e.err }

// classify completes an error from within a file: with its name and, unless it says otherwise itself, as damage.
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
