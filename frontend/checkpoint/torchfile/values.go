package torchfile

import (
	"fmt"
	"iter"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/ir/tensor"
)

// Tuple is a Python tuple, or torch.Size.
type Tuple []any

// Set is a Python set or frozenset, in the order of the file.
type Set []any

// Dict is a Python dict or OrderedDict, in its order.
type Dict struct {
	entries []entry
	index   map[string]int // of string keys
}

type entry struct{ key, value any }

// Len returns the number of entries.
func (d *Dict) Len() int { return len(d.entries) }

// Get returns the value of a string key.
func (d *Dict) Get(key string) (any, bool) {
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.entries[i].value, true
}

// All iterates over keys and values in order.
func (d *Dict) All() iter.Seq2[any, any] {
	return func(yield func(key, value any) bool) {
		for _, e := range d.entries {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// add appends an entry with a new key.
func (d *Dict) add(key, value any) {
	if s, ok := key.(string); ok {
		if d.index == nil {
			d.index = map[string]int{}
		}
		d.index[s] = len(d.entries)
	}
	d.entries = append(d.entries, entry{key, value})
}

// Placeholder stands for a class or function that the pickle names, or for the result of a call, which was not made.
type Placeholder struct {
	Module, Name string
	// Called is set for the result of a call or an instance, and not for the class or function itself.
	Called bool
	// Args are the arguments of the call. State is the pickled state of the instance, with the entries of a subclass of
	// dict or list. References to a value that encloses the placeholder are nil.
	Args, State any
}

// String describes p: "a call of posix.system".
func (p *Placeholder) String() string {
	name := p.Module + "." + p.Name
	if len(name) > 100 {
		name = name[:100] + "…"
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		name = strconv.QuoteToASCII(name)
	}
	if p.Called {
		return "a call of " + name
	}
	return "a reference to " + name
}

// Describe names the kind of a value for error messages: "a dict", "a call of posix.system".
func Describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a bool"
	case int64, *big.Int:
		return "an int"
	case float64:
		return "a float"
	case string:
		return "a string"
	case []byte:
		return "bytes"
	case []any:
		return "a list"
	case Tuple:
		return "a tuple"
	case Set:
		return "a set"
	case *Dict:
		return "a dict"
	case *tensor.Tensor:
		return "a tensor " + v.String()
	case tensor.DType:
		return "a torch dtype"
	case *Placeholder:
		return v.String()
	}
	return fmt.Sprintf("a %T", v)
}

// The containers of the unpickler. They may form cycles, until plain makes a tree of them.
type (
	list struct {
		items []any
		open
	}
	tuple struct {
		items []any
		open
	}
	set struct {
		items []any
		open
	}
	dict struct {
		entries []entry
		index   map[any]int
		open
	}
	object struct {
		open
		module, name string
		called       bool
		args, state  any
		dict         *dict
		list         *list
	}
)

// open is whether a container is around the value that plain copies now.
type open bool

func (o *open) flag() *open { return o }

// bytesKey is the form in which bytes are keys of a dict.
type bytesKey string

// keyOf returns the comparable form of a key: plain values compare by value, others by identity.
func keyOf(key any) (any, error) {
	switch k := key.(type) {
	case nil, string, int64, float64, tensor.DType, *tuple, *object, *big.Int, *tensor.Tensor:
		return k, nil
	case bool:
		if k {
			return int64(1), nil
		}
		return int64(0), nil
	case []byte:
		return bytesKey(k), nil
	}
	return nil, fmt.Errorf("%s cannot be the key of a dict", kind(key))
}

func (d *dict) set(key, value any) error {
	k, err := keyOf(key)
	if err != nil {
		return err
	}
	if i, ok := d.index[k]; ok {
		d.entries[i].value = value
		return nil
	}
	if d.index == nil {
		d.index = map[any]int{}
	}
	d.index[k] = len(d.entries)
	d.entries = append(d.entries, entry{key, value})
	return nil
}

func (d *dict) get(key string) any {
	if i, ok := d.index[key]; ok {
		return d.entries[i].value
	}
	return nil
}

// kind is Describe for the values of the unpickler.
func kind(v any) string {
	switch v := v.(type) {
	case *list:
		return "a list"
	case *tuple:
		return "a tuple"
	case *set:
		return "a set"
	case *dict:
		return "a dict"
	case *storage:
		return "a storage"
	case mark:
		return "a mark"
	case *object:
		return (&Placeholder{Module: v.module, Name: v.name, Called: v.called}).String()
	}
	return Describe(v)
}

// tree converts the unpickler's values to plain ones.
type tree struct {
	watch  *ends.Watch
	values int
	limit  int // on values; shared ones count at each occurrence
	depth  int // the number of containers around the current value
	inert  int // the number of placeholders among them
}

// plain copies a value as a tree. Cycles are cut inside placeholders, and an error elsewhere.
func (t *tree) plain(v any) (any, error) {
	t.watch.Step(1)
	if t.values++; t.values > t.limit {
		return nil, errBudget
	}
	if _, ok := v.(*storage); ok {
		return nil, fmt.Errorf("found a storage where a value should be")
	}
	container, ok := v.(interface{ flag() *open })
	if !ok {
		return v, nil
	}
	t.values++ // it takes more than a number does
	around := container.flag()
	if *around {
		if t.inert > 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("%s contains itself", kind(v))
	}
	if t.depth >= MaxDepth {
		return nil, fmt.Errorf("values are nested more than %d deep", MaxDepth)
	}
	*around = true
	t.depth++
	defer func() { *around, t.depth = false, t.depth-1 }()
	switch v := v.(type) {
	case *list:
		return t.items(v.items)
	case *tuple:
		items, err := t.items(v.items)
		return Tuple(items), err
	case *set:
		items, err := t.items(v.items)
		return Set(items), err
	case *dict:
		return t.dict(v)
	case *object:
		return t.object(v)
	}
	return nil, fmt.Errorf("unexpected %T", v)
}

func (t *tree) items(items []any) ([]any, error) {
	out := make([]any, len(items))
	for i, x := range items {
		var err error
		if out[i], err = t.plain(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t *tree) dict(d *dict) (*Dict, error) {
	out := &Dict{}
	for _, e := range d.entries {
		key, err := t.plain(e.key)
		if err != nil {
			return nil, err
		}
		value, err := t.plain(e.value)
		if err != nil {
			return nil, err
		}
		out.add(key, value)
	}
	return out, nil
}

// object unwraps configuration objects, and makes placeholders of all others.
func (t *tree) object(o *object) (any, error) {
	if content, ok := o.config(); ok {
		return t.plain(content)
	}
	t.inert++
	defer func() { t.inert-- }()
	p := &Placeholder{Module: o.module, Name: o.name, Called: o.called}
	var err error
	if p.Args, err = t.plain(o.args); err != nil {
		return nil, err
	}
	state := o.state
	if state == nil && o.dict != nil {
		state = o.dict
	}
	if state == nil && o.list != nil {
		state = o.list
	}
	if p.State, err = t.plain(state); err != nil {
		return nil, err
	}
	return p, nil
}

// config returns the plain content of an object that only wraps configuration: OmegaConf's containers and nodes, which
// also refer to their parents, Lightning's AttributeDict, and argparse's Namespace.
func (o *object) config() (any, bool) {
	if !o.called {
		return nil, false
	}
	state, _ := o.state.(*dict)
	switch root, _, _ := strings.Cut(o.module, "."); {
	case root == "omegaconf" && state != nil:
		for _, name := range []string{"_content", "_val"} {
			if _, ok := state.index[name]; ok {
				return state.get(name), true
			}
		}
	case o.name == "AttributeDict" && (root == "pytorch_lightning" || root == "lightning" ||
		root == "lightning_fabric"):
		if o.dict == nil {
			return &dict{}, true
		}
		return o.dict, true
	case o.module == "argparse" && o.name == "Namespace" && state != nil:
		return state, true
	}
	return nil, false
}
