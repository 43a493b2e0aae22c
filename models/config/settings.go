package config

// Settings are the values of a configuration, by the keys of its file.
type Settings interface {
	// Read sets the values of an object of JSON. It checks each by itself.
	Read(v *Value) error
	// JSON returns the object in canonical form, which reads back as the same: keys in the order of the table, without
	// those that do not apply.
	JSON() []byte
	// Keys lists the keys of Set, in the order of the file.
	Keys() []string
	// Set sets one key, written with dots ("layer.bidirectional"), to a value as in the file, but with strings
	// unquoted. It checks the value alone. A new type of an object resets the keys that it does not have.
	Set(key, value string) error
}

// Bound is the settings of one configuration, which they read and change: those of its table.
type Bound[C any] struct {
	Table *Table[C]
	C     *C
}

// Bind returns the settings of a configuration.
func (t *Table[C]) Bind(c *C) Bound[C] { return Bound[C]{t, c} }

// Read implements Settings.
func (s Bound[C]) Read(v *Value) error { return s.Table.Read(s.C, v) }

// JSON implements Settings.
func (s Bound[C]) JSON() []byte { return s.Table.JSON(s.C) }

// Keys implements Settings.
func (s Bound[C]) Keys() []string { return s.Table.Keys(s.C) }

// Set implements Settings.
func (s Bound[C]) Set(key, value string) error { return s.Table.Set(s.C, key, value) }
