package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/spell"
)

// NameKey is the key that says the type of a part.
const NameKey = "_name_"

// Part is an object of a configuration whose type, under the key "_name_", says its keys. Errors begin with the key.
type Part interface {
	// Name returns the type.
	Name() string
	Read(v *Value) error
	Validate() error
	Keys() []string
	Set(key, value string) error
	// AppendJSON appends the object, at a depth of indentation.
	AppendJSON(b []byte, depth int) []byte
}

// Keyed is a part with a table of keys besides "_name_".
type Keyed[C any] struct {
	Type  string
	Table *Table[C]
	C     *C
}

// Name returns the type.
func (o Keyed[C]) Name() string { return o.Type }

// Read sets the values of an object of JSON.
func (o Keyed[C]) Read(v *Value) error { return o.Table.Read(o.C, v) }

// Validate checks each value by itself.
func (o Keyed[C]) Validate() error { return o.Table.Validate(o.C) }

// Keys lists the keys of Set.
func (o Keyed[C]) Keys() []string { return o.Table.Keys(o.C) }

// Set sets one key.
func (o Keyed[C]) Set(key, value string) error { return o.Table.Set(o.C, key, value) }

// AppendJSON appends the object.
func (o Keyed[C]) AppendJSON(b []byte, depth int) []byte {
	return o.Table.appendJSON(b, o.C, depth, o.Type)
}

// Nested is a value of a field that reads and writes itself.
type Nested interface {
	read(v *Value) error
	validate() error
	keys() []string
	set(key, value string) error
	appendJSON(b []byte, depth int) []byte
}

// chain is a list of parts. A single one may stand without the list.
type chain[P Part] struct {
	parts *[]P
	kinds map[string]func() P
	many  bool
}

// Chain makes a field of parts: an object, or a list of objects, of the given types.
func Chain[P Part](parts *[]P, kinds map[string]func() P) Nested { return chain[P]{parts, kinds, true} }

// One makes a field of one part.
func One[P Part](parts *[]P, kinds map[string]func() P) Nested { return chain[P]{parts, kinds, false} }

func (c chain[P]) expected() string {
	s := "one of " + strings.Join(slices.Sorted(maps.Keys(c.kinds)), ", ")
	if len(c.kinds) == 1 {
		s = strings.TrimPrefix(s, "one of ")
	}
	return s
}

// mostParts bounds the parts of a chain.
const mostParts = 64

func (c chain[P]) read(v *Value) error {
	items := []*Value{v}
	if v.Kind == List && c.many {
		items = v.Items
	}
	if len(items) == 0 || len(items) > mostParts {
		return fmt.Errorf(": expected 1 to %d objects, found %d", mostParts, len(items))
	}
	var all []P
	for i, item := range items {
		at := ""
		if len(items) > 1 {
			at = "." + strconv.Itoa(i)
		}
		if item.Kind != Object {
			return fmt.Errorf("%s: expected an object, found %s", at, item.Describe())
		}
		name := item.Get(NameKey)
		if name == nil {
			return fmt.Errorf("%s.%s: is missing, expected %s", at, NameKey, c.expected())
		}
		p, err := c.part(name.Text)
		if err != nil || name.Kind != String {
			return fmt.Errorf("%s.%s: expected %s, found %s%s", at, NameKey, c.expected(), name.Describe(),
				c.near(name.Text))
		}
		rest := &Value{Kind: Object}
		for _, m := range item.Members {
			if m.Key != NameKey {
				rest.Members = append(rest.Members, m)
			}
		}
		if err := p.Read(rest); err != nil {
			return fmt.Errorf("%s.%w", at, err)
		}
		all = append(all, p)
	}
	*c.parts = all
	return nil
}

func (c chain[P]) part(name string) (p P, err error) {
	make, ok := c.kinds[name]
	if !ok {
		return p, fmt.Errorf("expected %s, found %s%s", c.expected(), Shorten(name), c.near(name))
	}
	return make(), nil
}

// near proposes a type.
func (c chain[P]) near(name string) string {
	near := spell.Close(name, slices.Sorted(maps.Keys(c.kinds)))
	if near == "" || near == name {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near)
}

func (c chain[P]) validate() error {
	if len(*c.parts) == 0 {
		return fmt.Errorf(": is missing, expected %s", c.expected())
	}
	for i, p := range *c.parts {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("%s.%w", c.at(i), err)
		}
	}
	return nil
}

// at is the name of a part behind that of the field.
func (c chain[P]) at(i int) string {
	if len(*c.parts) == 1 {
		return ""
	}
	return "." + strconv.Itoa(i)
}

func (c chain[P]) keys() []string {
	var all []string
	for i, p := range *c.parts {
		all = append(all, c.at(i)+"."+NameKey)
		for _, k := range p.Keys() {
			all = append(all, c.at(i)+"."+k)
		}
	}
	return all
}

// set sets a key of a part: "d_state", or "1.d_state" where there are several.
func (c chain[P]) set(key, value string) error {
	i := 0
	if len(*c.parts) > 1 {
		head, rest, _ := strings.Cut(key, ".")
		n, err := strconv.Atoi(head)
		if err != nil || n < 0 || n >= len(*c.parts) {
			return fmt.Errorf(".%s: expected the number of a part, 0 to %d, found %s", head, len(*c.parts)-1,
				Shorten(head))
		}
		i, key = n, rest
	}
	if key == NameKey {
		p, err := c.part(value)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", c.at(i), NameKey, err)
		}
		if len(*c.parts) == 0 {
			*c.parts = []P{p}
		} else {
			(*c.parts)[i] = p
		}
		return nil
	}
	if len(*c.parts) == 0 {
		return fmt.Errorf(".%s: set %s first", key, NameKey)
	}
	if err := (*c.parts)[i].Set(key, value); err != nil {
		return fmt.Errorf("%s.%w", c.at(i), err)
	}
	return nil
}

func (c chain[P]) appendJSON(b []byte, depth int) []byte {
	if len(*c.parts) == 1 {
		return (*c.parts)[0].AppendJSON(b, depth)
	}
	b = append(b, '[')
	for i, p := range *c.parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '\n')
		b = append(b, strings.Repeat(" ", depth+1)...)
		b = p.AppendJSON(b, depth+1)
	}
	b = append(b, '\n')
	b = append(b, strings.Repeat(" ", depth)...)
	return append(b, ']')
}
