package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/spell"
)

// Field is one key of a configuration of type C. Reading, writing, Set and Validate all work on the table of fields.
type Field[C any] struct {
	// Key has the names of the objects around it before it, with dots: "layer.heads".
	Key string
	// Ref returns where the value is: an *int, *bool, *float64 or *string, a *[]int or
	// *[]float64, or a Nested (Chain, One).
	Ref func(*C) any
	// Def is the value without the key; nil: the key is required if it applies.
	Def any
	// OneOf lists the allowed strings. If it is empty, all are.
	OneOf []string
	// Lo and Hi bound integers, of lists too.
	Lo, Hi int
	// Null says that null, or no key, stands for the zero value.
	Null bool
	// NullIs, if not nil, is the value that null stands for.
	NullIs any
	// Omit says that the zero value is not written.
	Omit bool
	// OmitDefault says that the default is not written.
	OmitDefault bool
	// Listed says that a string stands in a list, which has no other items.
	Listed bool
	// Bare says that a string is written without quotes: true or false, of a key that may also be null.
	Bare bool
	// Signed says that a number may be below 0.
	Signed bool
	// When says whether the key applies; nil: always.
	When func(*C) bool
}

// nested returns the value if it reads and writes itself.
func (f Field[C]) nested(c *C) (Nested, bool) {
	n, ok := f.Ref(c).(Nested)
	return n, ok
}

// split returns the object that the key is in, and its name there.
func (f Field[C]) split() (section, key string) { return splitKey(f.Key) }

func splitKey(path string) (section, key string) {
	if i := strings.LastIndex(path, "."); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

func (f Field[C]) applies(c *C) bool { return f.When == nil || f.When(c) }

func (f Field[C]) put(c *C, v any) {
	switch p := f.Ref(c).(type) {
	case *int:
		*p = v.(int)
	case *bool:
		*p = v.(bool)
	case *float64:
		*p = v.(float64)
	case *string:
		*p = v.(string)
	case *[]int:
		*p = slices.Clone(v.([]int))
	case *[]float64:
		*p = slices.Clone(v.([]float64))
	}
}

func (f Field[C]) get(c *C) any {
	switch p := f.Ref(c).(type) {
	case *int:
		return *p
	case *bool:
		return *p
	case *float64:
		return *p
	case *string:
		return *p
	case *[]int:
		return *p
	case *[]float64:
		return *p
	}
	return nil
}

// zero returns the value of a key that does not apply or is null.
func (f Field[C]) zero() any {
	var c C
	return f.get(&c)
}

// isZero reports whether the configuration has the zero value.
func (f Field[C]) isZero(c *C) bool {
	switch v := f.get(c).(type) {
	case []int:
		return len(v) == 0
	case []float64:
		return len(v) == 0
	}
	return f.get(c) == f.zero()
}

// expected describes the allowed values of the key.
func (f Field[C]) expected() string {
	s := ""
	switch f.zero().(type) {
	case int:
		s = fmt.Sprintf("an integer from %d to %d", f.Lo, f.Hi)
	case bool:
		s = "true or false"
	case float64:
		if s = "a number of at least 0"; f.Signed {
			s = "a finite number"
		}
	case []int:
		s = fmt.Sprintf("a list of integers from %d to %d", f.Lo, f.Hi)
	case []float64:
		s = "a list of numbers"
	case string:
		s = strings.Join(f.OneOf, ", ")
		if len(f.OneOf) > 1 {
			s = "one of " + s
		} else if len(f.OneOf) == 0 {
			s = "a string"
		}
		if f.Listed {
			s = "a list with " + s
		}
	}
	if s == "" {
		s = "an object with " + NameKey
	}
	if f.Null || f.NullIs != nil {
		s += ", or null"
	}
	return s
}

func (f Field[C]) wrong(found string) error {
	hint := ""
	if near := spell.Close(found, f.OneOf); near != "" && !f.Listed {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return fmt.Errorf("%s: expected %s, found %s%s", f.Key, f.expected(), found, hint)
}

// maxItems bounds the items of a list.
const maxItems = 1 << 12

// read parses a value as in JSON, but with strings unquoted, and lists without brackets.
func (f Field[C]) read(text string) (any, error) {
	if text == "null" {
		switch {
		case f.NullIs != nil:
			return f.NullIs, nil
		case f.Null:
			return f.zero(), nil
		case f.Def != nil:
			return f.Def, nil
		}
		return nil, f.wrong("null")
	}
	switch f.zero().(type) {
	case int:
		if n, err := strconv.Atoi(text); err == nil && n >= f.Lo && n <= f.Hi {
			return n, nil
		}
	case bool:
		if text == "true" || text == "false" {
			return text == "true", nil
		}
	case float64:
		if x, err := strconv.ParseFloat(text, 64); err == nil && finite(x) && (x >= 0 || f.Signed) {
			return x, nil
		}
	case string:
		if len(f.OneOf) == 0 || slices.Contains(f.OneOf, text) {
			return text, nil
		}
	case []int:
		parts := strings.Split(text, ",")
		list := make([]int, 0, min(len(parts), maxItems))
		for _, p := range parts {
			n, err := strconv.Atoi(strings.TrimSpace(p))
			if err != nil || n < f.Lo || n > f.Hi || len(list) == maxItems {
				return nil, f.wrong(Shorten(text))
			}
			list = append(list, n)
		}
		return list, nil
	case []float64:
		parts := strings.Split(text, ",")
		list := make([]float64, 0, min(len(parts), maxItems))
		for _, p := range parts {
			x, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
			if err != nil || math.IsNaN(x) || len(list) == maxItems {
				return nil, f.wrong(Shorten(text))
			}
			list = append(list, x)
		}
		return list, nil
	}
	return nil, f.wrong(Shorten(text))
}

// readValue reads the field's value from a file.
func (f Field[C]) readValue(v *Value) (any, error) {
	_, isText := f.zero().(string)
	_, isList := f.zero().([]int)
	if _, ok := f.zero().([]float64); ok {
		isList = true
	}
	text := v.Text
	switch v.Kind {
	case Null:
		text = "null"
	case Number:
		if isText {
			return nil, f.wrong(Shorten(text))
		}
	case Bool:
	case String:
		if !isText || text == "null" || f.Listed || f.Bare {
			return nil, f.wrong(quote(clip(text, maxWord)))
		}
	case List:
		if f.Listed && len(v.Items) == 1 && v.Items[0].Kind == String {
			return f.read(v.Items[0].Text)
		}
		var parts []string
		for _, item := range v.Items {
			if item.Kind != Number {
				return nil, f.wrong(v.Describe())
			}
			parts = append(parts, item.Text)
		}
		if text = strings.Join(parts, ","); !isList || len(parts) == 0 {
			return nil, f.wrong(v.Describe())
		}
	default:
		return nil, f.wrong(v.Describe())
	}
	return f.read(text)
}

// text returns the configuration's value as read takes it.
func (f Field[C]) text(c *C) string {
	if f.NullIs != nil && f.get(c) == f.NullIs {
		return "null"
	}
	switch v := f.get(c).(type) {
	case []int:
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]")
	case []float64:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = strconv.FormatFloat(x, 'g', -1, 64)
			if math.IsInf(x, 0) { // as Python writes it
				parts[i] = strings.Replace(parts[i], "Inf", "Infinity", 1)
			}
			parts[i] = strings.TrimPrefix(parts[i], "+")
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

// json writes the key's value.
func (f Field[C]) json(c *C) string {
	if f.Null && f.isZero(c) || f.NullIs != nil && f.get(c) == f.NullIs {
		return "null"
	}
	switch v := f.get(c).(type) {
	case string:
		if f.Listed {
			return "[" + quote(v) + "]"
		}
		if f.Bare {
			return v
		}
		return quote(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []int, []float64:
		return "[" + strings.ReplaceAll(f.text(c), ",", ", ") + "]"
	default:
		return fmt.Sprint(v)
	}
}

// finite reports whether x can be written in JSON.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
