package open

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/essmc/essmc/internal/patterns"
	"github.com/essmc/essmc/runtime"
)

// OptionError is the error for an option that does not fit the model. errors.Is(err, runtime.ErrOption) is true for it.
type OptionError struct {
	Name   string // name of the model
	Kind   Kind   // kind of the model
	Option string // the field of Options: "Shapes", "Carry", "Rate", "Skip", "Passes" or "Parameters"
	Value  string // the value at fault if the option has several; may be empty
	Err    error
}

// Error names the model and the option.
func (e *OptionError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: option %s: %v", e.Name, e.Option, e.Err)
	}
	return fmt.Sprintf("%s: option %s: %s: %v", e.Name, e.Option, e.Value, e.Err)
}

// Is reports whether target is runtime.ErrOption.
func (e *OptionError) Is(target error) bool { return target == runtime.ErrOption }

// Unwrap returns Err.
func (e *OptionError) Unwrap() error { return e.Err }

func (m *Model) wrong(option, value string, err error) error {
	return &OptionError{Name: m.Name, Kind: m.Kind, Option: option, Value: value, Err: err}
}

// about adds the model and the option to an error about shapes.
func (m *Model) about(err error) error {
	var s *shapeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &s):
		return m.wrong("Shapes", s.shape.String(), s.err)
	}
	return fmt.Errorf("%s: %w", m.Name, err)
}

// selected makes an OptionError of an error about Options.Parameters.
func (m *Model) selected(err error) error {
	var p *patterns.Error
	if errors.As(err, &p) {
		return m.wrong("Parameters", strconv.Quote(p.Pattern), errors.New(p.Reason))
	}
	return err
}

// parameters returns the reason why a model of this kind has no Options.Parameters, or nil.
func (k Kind) parameters() error {
	switch k {
	case Plan:
		return errors.New("a plan has the parameters that it was made with; compile the model again with others")
	case Memory:
		return errors.New("a graph in memory has the parameters that it was made with; see ir.NewParameter")
	}
	return nil
}

// rate returns the reason why a model of this kind has no Options.Rate.
func (k Kind) rate() error {
	if k == Plan {
		return errors.New("a plan keeps the rate that it was made with; open the model directory with it instead")
	}
	return fmt.Errorf("only a model directory has step sizes to multiply, found %v", k)
}
