package open

import (
	"errors"
	"fmt"

	"github.com/essmc/essmc/runtime"
)

// OptionError says that an option does not fit the model. errors.Is finds runtime.ErrOption in it.
type OptionError struct {
	Name   string // the model's
	Kind   Kind   // the model's
	Option string // the field of Options: "Shapes", "Carry" or "Rate"
	Value  string // the one of several values that is meant; may be empty
	Err    error
}

// Error names the model and the option.
func (e *OptionError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: option %s: %v", e.Name, e.Option, e.Err)
	}
	return fmt.Sprintf("%s: option %s: %s: %v", e.Name, e.Option, e.Value, e.Err)
}

// Is makes it a runtime.ErrOption.
func (e *OptionError) Is(target error) bool { return target == runtime.ErrOption }

// Unwrap gives what is wrong.
func (e *OptionError) Unwrap() error { return e.Err }

func (m *Model) wrong(option, value string, err error) error {
	return &OptionError{Name: m.Name, Kind: m.Kind, Option: option, Value: value, Err: err}
}

// about completes an error of shapes.
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

// rate says why a model of this kind takes no Options.Rate.
func (k Kind) rate() error {
	if k == Plan {
		return errors.New("a plan keeps the rate that it was made with; open the model directory with it instead")
	}
	return fmt.Errorf("only a model directory has step sizes to multiply, found %v", k)
}
