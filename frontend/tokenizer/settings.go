package tokenizer

import (
	"fmt"

	"github.com/essmc/essmc/frontend/tokenizer/internal/jsontext"
)

// readSettings reads the truncation and the padding of a file.
func (t *Tokenizer) readSettings(s *sections) error {
	if s.truncation.Kind() != jsontext.Null {
		t.fileTruncation = &Truncation{}
		if err := readTruncation(s.truncation, t.fileTruncation); err != nil {
			return fmt.Errorf("truncation: %w", err)
		}
		if _, err := t.fileTruncation.check(t.processor.Added(false), t.processor.Added(false)); err != nil {
			return err
		}
	}
	if s.padding.Kind() != jsontext.Null {
		t.filePadding = &Padding{}
		if err := readPadding(s.padding, t.filePadding); err != nil {
			return fmt.Errorf("padding: %w", err)
		}
	}
	return nil
}

func readTruncation(v jsontext.Value, o *Truncation) error {
	return v.Fields(func(key []byte, v jsontext.Value) error {
		var err error
		switch string(key) {
		case "max_length":
			o.MaxLength, err = v.Int(maxLength)
		case "stride":
			o.Stride, err = v.Int(maxLength)
		case "direction":
			o.Left, err = left(v)
		case "strategy":
			var i int
			i, err = choice(v, "LongestFirst", "OnlyFirst", "OnlySecond")
			o.Strategy = Strategy(i)
		default:
			return fmt.Errorf("key %.60q is not supported", key)
		}
		return within(key, err)
	})
}

func readPadding(v jsontext.Value, o *Padding) error {
	return v.Fields(func(key []byte, v jsontext.Value) error {
		var err error
		var n int
		switch string(key) {
		case "strategy":
			if v.Kind() == jsontext.String {
				_, err = choice(v, "BatchLongest")
				break
			}
			err = v.Fields(func(key []byte, v jsontext.Value) error {
				if string(key) != "Fixed" {
					return fmt.Errorf("expected BatchLongest or Fixed, found %.60q", key)
				}
				o.Length, err = v.Int(maxLength)
				return err
			})
		case "direction":
			o.Left, err = left(v)
		case "pad_to_multiple_of":
			if v.Kind() != jsontext.Null {
				o.MultipleOf, err = v.Int(maxLength)
			}
		case "pad_id":
			n, err = v.Int(MaxTokens - 1)
			o.ID = int64(n)
		case "pad_type_id":
			n, err = v.Int(MaxTokens)
			o.TypeID = int64(n)
		case "pad_token":
			o.Token, err = v.Str()
		default:
			return fmt.Errorf("key %.60q is not supported", key)
		}
		return within(key, err)
	})
}

func left(v jsontext.Value) (bool, error) {
	i, err := choice(v, "Left", "Right")
	return i == 0, err
}

// choice returns the place of a string in a list.
func choice(v jsontext.Value, list ...string) (int, error) {
	s, err := v.Str()
	if err != nil {
		return 0, err
	}
	for i, one := range list {
		if s == one {
			return i, nil
		}
	}
	return 0, fmt.Errorf("expected one of %v, found %.60q", list, s)
}

// within names the key of an error.
func within(key []byte, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
