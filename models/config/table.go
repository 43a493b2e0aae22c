package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/spell"
)

// Table describes the keys of configurations of type C.
type Table[C any] struct {
	// Fields lists the keys in the order of the file. The type of an object (TypeKey) is before the keys that depend on
	// it.
	Fields []Field[C]
	// TypeKey is the name of the key that says which kind of object it is in; empty: none has one.
	TypeKey string
	// Ignored lists keys that are accepted and not used, such as those that only training reads.
	Ignored []string
	// Hub accepts the keys that any configuration of a model hub may have.
	Hub bool
	// Refused are keys whose value must be null or false, with the reason.
	Refused map[string]string
	// Labels returns where the names of classes are, under the key id2label; nil: there are none.
	Labels func(*C) *[]string
}

// labelsKey is the key of the class names, the only one that is not a field.
const labelsKey = "id2label"

// Defaults sets all values that have a default.
func (t *Table[C]) Defaults(c *C) {
	for _, f := range t.Fields {
		if f.Def != nil {
			f.put(c, f.Def)
		}
	}
}

// Keys lists the keys of Set for a configuration, with those of its parts, in the order of the file.
func (t *Table[C]) Keys(c *C) []string {
	var keys []string
	for _, f := range t.Fields {
		if n, ok := f.nested(c); ok {
			for _, k := range n.keys() {
				keys = append(keys, f.Key+k)
			}
		} else {
			keys = append(keys, f.Key)
		}
	}
	return keys
}

// Read sets the values of an object. Unknown keys are errors, and missing ones without a default; values are not
// checked against each other.
func (t *Table[C]) Read(c *C, v *Value) error {
	seen := map[string]bool{}
	if err := t.object(c, v, "", seen); err != nil {
		return err
	}
	for _, f := range t.Fields {
		if f.applies(c) && !seen[f.Key] && f.Def == nil && !f.Null {
			return fmt.Errorf("%s: is missing, expected %s", f.Key, f.expected())
		}
	}
	return nil
}

func (t *Table[C]) object(c *C, v *Value, section string, seen map[string]bool) error {
	for _, m := range v.Members {
		key := join(section, m.Key)
		i := slices.IndexFunc(t.Fields, func(f Field[C]) bool { return f.Key == key })
		var err error
		switch {
		case i >= 0:
			err = t.value(c, t.Fields[i], m.Value, seen)
		case t.isSection(key):
			if m.Value.Kind != Object {
				return fmt.Errorf("%s: expected an object, found %s", key, m.Value.Describe())
			}
			err = t.object(c, m.Value, key, seen)
		case key == labelsKey && t.Labels != nil:
			err = t.readLabels(c, m.Value)
		case slices.Contains(t.Ignored, key):
		case t.Refused[key] != "":
			if m.Value.Kind != Null && m.Value.Text != "false" {
				err = fmt.Errorf("%s: expected null, found %s: %s", key, m.Value.Describe(), t.Refused[key])
			}
		default:
			known := false
			if t.Hub && section == "" {
				known, err = hubKey(key, m.Value)
			}
			if !known {
				err = t.unknown(key, "; remove it if it does not change the model's outputs")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isSection reports whether there are keys in the object at path.
func (t *Table[C]) isSection(path string) bool {
	return slices.ContainsFunc(t.Fields, func(f Field[C]) bool { return strings.HasPrefix(f.Key, path+".") })
}

func (t *Table[C]) value(c *C, f Field[C], v *Value, seen map[string]bool) error {
	if n, ok := f.nested(c); ok {
		seen[f.Key] = true
		if err := n.read(v); err != nil {
			return fmt.Errorf("%s%w", f.Key, err)
		}
		return nil
	}
	if v.Kind == Null && !f.Null && f.NullIs == nil { // the same as no key
		if f.Def == nil {
			if f.When != nil {
				return nil
			}
			return f.wrong("null")
		}
		f.put(c, f.Def)
		return nil
	}
	x, err := f.readValue(v)
	if err != nil {
		return err
	}
	seen[f.Key] = true
	f.put(c, x)
	return nil
}

// readLabels reads the class names: an object from "0", "1", … to names, in any order.
func (t *Table[C]) readLabels(c *C, v *Value) error {
	if v.Kind == Null {
		return nil
	}
	if v.Kind != Object {
		return fmt.Errorf("%s: expected an object, found %s", labelsKey, v.Describe())
	}
	names := map[int]string{}
	for _, m := range v.Members {
		i, err := strconv.Atoi(m.Key)
		if err != nil || i < 0 || strconv.Itoa(i) != m.Key {
			return fmt.Errorf("%s: expected class numbers as keys, found %s", labelsKey, Shorten(m.Key))
		}
		if m.Value.Kind != String {
			return fmt.Errorf("%s.%s: expected a name, found %s", labelsKey, m.Key, m.Value.Describe())
		}
		names[i] = m.Value.Text
	}
	list := make([]string, len(names))
	for i := range list {
		name, ok := names[i]
		if !ok {
			return fmt.Errorf("%s: expected the keys 0 to %d, found no %d", labelsKey, len(names)-1, i)
		}
		list[i] = name
	}
	*t.Labels(c) = list
	return nil
}

// JSON returns the configuration in canonical form: keys in the table's order, without those that do not apply,
// indented by one space.
func (t *Table[C]) JSON(c *C) []byte { return append(t.appendJSON(nil, c, 0, ""), '\n') }

// appendJSON appends the object at a depth of indentation, with a name if it has one.
func (t *Table[C]) appendJSON(b []byte, c *C, depth int, name string) []byte {
	b = append(b, '{')
	var open []string // the objects that are open
	first := true
	indent := func() {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, '\n')
		b = append(b, strings.Repeat(" ", depth+len(open)+1)...)
	}
	shut := func(to int) {
		for len(open) > to {
			b = append(b, '\n')
			b = append(b, strings.Repeat(" ", depth+len(open))...)
			b = append(b, '}')
			open = open[:len(open)-1]
		}
	}
	if name != "" {
		indent()
		b = fmt.Appendf(b, "%q: %q", NameKey, name)
	}
	for _, f := range t.Fields {
		n, nested := f.nested(c)
		if !f.applies(c) || f.Omit && f.isZero(c) || f.OmitDefault && f.get(c) == f.Def {
			continue
		}
		path := strings.Split(f.Key, ".")
		at := 0
		for at < len(open) && at < len(path)-1 && open[at] == path[at] {
			at++
		}
		shut(at)
		for ; at < len(path)-1; at++ {
			indent()
			b = fmt.Appendf(b, "%q: {", path[at])
			open, first = append(open, path[at]), true
		}
		indent()
		if b = fmt.Appendf(b, "%q: ", path[at]); nested {
			b = n.appendJSON(b, depth+len(open)+1)
		} else {
			b = append(b, f.json(c)...)
		}
	}
	shut(0)
	if t.Labels != nil && len(*t.Labels(c)) > 0 {
		indent()
		b = fmt.Appendf(b, "%q: {", labelsKey)
		for i, l := range *t.Labels(c) {
			if i > 0 {
				b = append(b, ',')
			}
			b = fmt.Appendf(b, "\n  \"%d\": %s", i, quote(l))
		}
		b = append(b, "\n }"...)
	}
	b = append(b, '\n')
	b = append(b, strings.Repeat(" ", depth)...)
	return append(b, '}')
}

// Set sets one key, written with dots ("layer.bidirectional"), to a value as in the file, but with strings unquoted and
// lists without brackets. It checks the value alone. A new type of an object resets the keys that it does not have.
func (t *Table[C]) Set(c *C, key, value string) error {
	for _, f := range t.Fields {
		if n, ok := f.nested(c); ok && strings.HasPrefix(key, f.Key+".") {
			if err := n.set(key[len(f.Key)+1:], value); err != nil {
				return fmt.Errorf("%s%w", f.Key, err)
			}
			return nil
		}
	}
	i := slices.IndexFunc(t.Fields, func(f Field[C]) bool { return f.Key == key })
	if i < 0 {
		return t.unknown(key, "", t.Keys(c)...)
	}
	f := t.Fields[i]
	if _, ok := f.nested(c); ok {
		return fmt.Errorf("%s: expected a key of it, as %s.%s", key, key, NameKey)
	}
	v, err := f.read(value)
	if err != nil {
		return err
	}
	f.put(c, v)
	if _, name := f.split(); t.TypeKey != "" && name == t.TypeKey {
		for _, f := range t.Fields {
			if !f.applies(c) {
				f.put(c, f.zero())
			}
		}
	}
	return nil
}

// Validate checks each value by itself.
func (t *Table[C]) Validate(c *C) error {
	for _, f := range t.Fields {
		if err := t.validate(c, f); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table[C]) validate(c *C, f Field[C]) error {
	if n, ok := f.nested(c); ok {
		if err := n.validate(); err != nil {
			return fmt.Errorf("%s%w", f.Key, err)
		}
		return nil
	}
	zero := f.isZero(c)
	if !f.applies(c) {
		if zero {
			return nil
		}
		section, key := f.split()
		kind := ""
		for _, g := range t.Fields {
			if g.Key == join(section, t.TypeKey) {
				kind = g.text(c)
			}
		}
		return fmt.Errorf("%s: %s %s has no %s", f.Key, section, kind, key)
	}
	if zero && f.Null {
		return nil
	}
	if _, err := f.read(f.text(c)); err != nil {
		if zero && f.Def == nil {
			return fmt.Errorf("%s: is missing, expected %s", f.Key, f.expected())
		}
		return err
	}
	return nil
}

// maxKeys is the number of known keys that the message about an unknown one lists.
const maxKeys = 48

// unknown returns an error with the known key that is probably meant, preferably of the same object, or else with
// advice and a list: of others, if there are any, or of the known keys of that object. others are the keys of Set.
func (t *Table[C]) unknown(key, advice string, others ...string) error {
	section, last := splitKey(key)
	var here, elsewhere []string
	consider := func(path string) {
		if s, name := splitKey(path); s == section {
			if !slices.Contains(here, name) {
				here = append(here, name)
			}
		} else {
			elsewhere = append(elsewhere, path)
		}
	}
	for _, f := range t.Fields {
		consider(f.Key)
		if s, _ := f.split(); s != "" {
			consider(s)
		}
	}
	for _, k := range others {
		consider(k)
	}
	if section == "" && t.Labels != nil {
		consider(labelsKey)
	}
	if near := spell.Close(last, here); near != "" {
		return fmt.Errorf("%s: unknown key, did you mean %s?", Shorten(key), near)
	}
	names := make([]string, len(elsewhere))
	for i, path := range elsewhere {
		_, names[i] = splitKey(path)
	}
	if i := slices.Index(names, spell.Close(last, names)); i >= 0 {
		return fmt.Errorf("%s: unknown key, did you mean %s?", Shorten(key), elsewhere[i])
	}
	if len(others) > 0 {
		here = others
	}
	list := strings.Join(here[:min(len(here), maxKeys)], ", ")
	if len(here) > maxKeys {
		list += ", …"
	}
	return fmt.Errorf("%s: unknown key%s; expected one of %s", Shorten(key), advice, list)
}
