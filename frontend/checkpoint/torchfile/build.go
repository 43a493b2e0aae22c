package torchfile

import (
	"fmt"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
)

// dtypes are the torch dtypes by name.
var dtypes = map[string]tensor.DType{
	"float64": tensor.Float64, "float32": tensor.Float32, "float16": tensor.Float16, "bfloat16": tensor.BFloat16,
	"int64": tensor.Int64, "int32": tensor.Int32, "int16": tensor.Int16, "int8": tensor.Int8, "uint8": tensor.Uint8,
	"uint16": tensor.Uint16, "uint32": tensor.Uint32, "uint64": tensor.Uint64, "bool": tensor.Bool,
	"complex64": tensor.Complex64, "complex128": tensor.Complex128, "float8_e4m3fn": tensor.Float8E4M3FN,
	"float8_e5m2":     tensor.Float8E5M2,
	"float8_e4m3fnuz": tensor.Float8E4M3FNUZ, "float8_e5m2fnuz": tensor.Float8E5M2FNUZ,
	"float8_e8m0fnu": tensor.Float8E8M0,
}

// storageTypes are the element types of torch's typed storages.
var storageTypes = map[string]tensor.DType{
	"DoubleStorage": tensor.Float64, "FloatStorage": tensor.Float32, "HalfStorage": tensor.Float16,
	"BFloat16Storage": tensor.BFloat16,
	"LongStorage":     tensor.Int64, "IntStorage": tensor.Int32, "ShortStorage": tensor.Int16,
	"CharStorage": tensor.Int8,
	"ByteStorage": tensor.Uint8, "BoolStorage": tensor.Bool, "ComplexFloatStorage": tensor.Complex64,
	"ComplexDoubleStorage": tensor.Complex128,
}

// build executes the opcodes that name, call and restore objects.
func (m *machine) build(op byte) error {
	switch op {
	case opGlobal:
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		return m.made(global(module, name))
	case opStackGlobal:
		v, err := m.popN(2)
		if err != nil {
			return err
		}
		module, ok1 := v[0].(string)
		name, ok2 := v[1].(string)
		if !ok1 || !ok2 {
			return fmt.Errorf("found %s and %s where a module and a name should be", kind(v[0]), kind(v[1]))
		}
		return m.made(global(module, name))
	case opBinPersID:
		id, err := m.pop()
		if err != nil {
			return err
		}
		s, err := newStorage(id)
		if err != nil {
			return err
		}
		return m.made(s)
	case opBuild:
		return m.restore()
	}
	// A call: opReduce, opNewObj, opNewObjEx.
	n := 2
	if op == opNewObjEx {
		n = 3 // keyword arguments
	}
	v, err := m.popN(n)
	if err != nil {
		return err
	}
	args, ok := v[1].(*tuple)
	if !ok {
		return fmt.Errorf("found %s where the arguments of a call should be", kind(v[1]))
	}
	f, ok := v[0].(*object)
	if !ok {
		return fmt.Errorf("found %s where a class or function should be", kind(v[0]))
	}
	r, err := m.call(f, args)
	if err != nil {
		return err
	}
	return m.made(r)
}

func global(module, name string) any {
	if module == "torch" {
		if d, ok := dtypes[name]; ok {
			return d
		}
	}
	return &object{module: module, name: name}
}

// call returns the result of calling f, for functions that only combine data. For all others it returns a placeholder.
func (m *machine) call(f *object, args *tuple) (any, error) {
	arg := args.items
	if err := m.spend(size(arg)); err != nil {
		return nil, err
	}
	if !f.called {
		switch f.module + "." + f.name {
		case "collections.OrderedDict", "builtins.dict", "__builtin__.dict":
			if d, ok := pairs(arg); ok {
				return d, nil
			}
		case "collections.defaultdict":
			return &dict{}, nil
		case "builtins.set", "__builtin__.set", "builtins.frozenset", "__builtin__.frozenset":
			if items, ok := elements(arg); ok {
				return &set{items: items}, nil
			}
		case "builtins.list", "__builtin__.list":
			if items, ok := elements(arg); ok {
				return &list{items: items}, nil
			}
		case "builtins.tuple", "__builtin__.tuple", "torch.Size":
			if items, ok := elements(arg); ok {
				return &tuple{items: items}, nil
			}
		case "_codecs.encode": // bytes in protocol 2
			if b, ok := latin1(arg); ok {
				return b, nil
			}
		case "builtins.bytes", "__builtin__.bytes", "builtins.bytearray", "__builtin__.bytearray":
			if len(arg) == 0 {
				return []byte{}, nil
			}
			if b, ok := arg[0].([]byte); ok && len(arg) == 1 {
				return b, nil
			}
			if b, ok := latin1(arg); ok {
				return b, nil
			}
		case "torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3":
			return m.tensor(f.name, arg)
		case "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state":
			if len(arg) > 0 {
				if t, ok := arg[0].(*tensor.Tensor); ok {
					return t, nil
				}
			}
			return nil, fmt.Errorf("%s: found no tensor in its arguments", f.name)
		case "torch._tensor._rebuild_from_type_v2": // (function, type, arguments, attributes)
			if len(arg) == 4 {
				g, ok1 := arg[0].(*object)
				inner, ok2 := arg[2].(*tuple)
				if ok1 && ok2 && g.module == "torch._utils" {
					return m.call(g, inner)
				}
			}
		}
	}
	return &object{module: f.module, name: f.name, called: true, args: args}, nil
}

// restore sets the state of an instance. That of plain containers and tensors is attributes, such as the versions of a
// state dict's modules, which are irrelevant here.
func (m *machine) restore() error {
	state, err := m.pop()
	if err != nil {
		return err
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case *object:
		if t, ok := state.(*tuple); ok && len(t.items) == 2 { // attributes, and attributes in slots
			if d, ok := t.items[0].(*dict); ok {
				state = d
			} else if d, ok := t.items[1].(*dict); ok {
				state = d
			}
		}
		v.state = state
	case *dict, *list, *set, *tensor.Tensor:
	default:
		return fmt.Errorf("found %s where an object should be", kind(v))
	}
	return nil
}

// size returns the number of values that a constructor copies from its arguments.
func size(arg []any) int {
	if len(arg) == 0 {
		return 0
	}
	if s, ok := arg[0].(string); ok {
		return len(s)
	}
	items, _ := elements(arg[:1])
	return len(items)
}

// elements returns the items of a container that is the only argument, or no items without an argument.
func elements(arg []any) ([]any, bool) {
	if len(arg) == 0 {
		return nil, true
	}
	if len(arg) == 1 {
		switch v := arg[0].(type) {
		case *list:
			return v.items[:len(v.items):len(v.items)], true
		case *tuple:
			return v.items[:len(v.items):len(v.items)], true
		case *set:
			return v.items[:len(v.items):len(v.items)], true
		}
	}
	return nil, false
}

// pairs makes a dict from a list of key-value pairs.
func pairs(arg []any) (*dict, bool) {
	items, ok := elements(arg)
	if !ok {
		return nil, false
	}
	d := &dict{}
	for _, it := range items {
		kv, ok := elements([]any{it})
		if !ok || len(kv) != 2 || d.set(kv[0], kv[1]) != nil {
			return nil, false
		}
	}
	return d, true
}

// latin1 returns the bytes of (text, "latin1").
func latin1(arg []any) ([]byte, bool) {
	if len(arg) != 2 {
		return nil, false
	}
	text, ok1 := arg[0].(string)
	codec, ok2 := arg[1].(string)
	if !ok1 || !ok2 || strings.ReplaceAll(codec, "-", "") != "latin1" {
		return nil, false
	}
	b := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return nil, false
		}
		b = append(b, byte(r))
	}
	return b, true
}
