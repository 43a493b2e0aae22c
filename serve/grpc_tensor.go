package serve

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	pb "github.com/essmc/essmc/serve/internal/inference"
	"github.com/essmc/essmc/serve/internal/wire"
)

// grpcRequest reads a request.
func grpcRequest(m *pb.ModelInferRequest) (*request, error) {
	r := &request{model: m.GetModelName(), version: m.GetModelVersion(), id: m.GetId(), in: map[string]tensor.Datum{}}
	for name, p := range m.GetParameters() {
		var v any
		switch c := p.GetParameterChoice().(type) {
		case *pb.InferParameter_BoolParam:
			v = c.BoolParam
		case *pb.InferParameter_Int64Param:
			v = c.Int64Param
		case *pb.InferParameter_Uint64Param:
			v = c.Uint64Param
		case *pb.InferParameter_StringParam:
			v = c.StringParam
		case *pb.InferParameter_DoubleParam:
			v = c.DoubleParam
		}
		if err := r.params.set(name, v); err != nil {
			return nil, err
		}
	}
	raw := m.GetRawInputContents()
	if len(raw) > 0 && len(raw) != len(m.GetInputs()) {
		return nil, invalid.errorf("raw_input_contents: expected %d, one for each input, found %d", len(m.GetInputs()),
			len(raw))
	}
	for i, in := range m.GetInputs() {
		if _, twice := r.in[in.GetName()]; twice {
			return nil, invalid.errorf("input %.100q is there twice", in.GetName())
		}
		var one []byte
		if len(raw) > 0 {
			if one = raw[i]; one == nil {
				one = []byte{}
			}
		}
		t, err := grpcInput(in, one)
		if err != nil {
			return nil, invalid.errorf("input %.100q: %w", in.GetName(), err)
		}
		r.in[in.GetName()] = t
	}
	for _, o := range m.GetOutputs() {
		if _, ok := o.GetParameters()["classification"]; ok {
			return nil, unsupported.errorf("output %.100q: essmc does not implement classification", o.GetName())
		}
		r.outputs = append(r.outputs, wanted{name: o.GetName()})
	}
	return r, nil
}

// grpcInput makes the tensor of an input: of its raw contents, or of those by type if there are none.
func grpcInput(in *pb.ModelInferRequest_InferInputTensor, raw []byte) (*tensor.Tensor, error) {
	d, err := wire.Type(in.GetDatatype())
	if err != nil {
		return nil, err
	}
	if _, ok := in.GetParameters()["shared_memory_region"]; ok {
		return nil, unsupported.errorf("essmc does not implement shared memory")
	}
	if raw != nil {
		if in.GetContents() != nil {
			return nil, invalid.errorf("expected contents or raw_input_contents, found both")
		}
		return wire.Decode(d, in.GetShape(), raw)
	}
	shape, n, err := wire.Shape(in.GetShape())
	if err != nil {
		return nil, err
	}
	c := in.GetContents()
	switch d {
	case tensor.Bool:
		return contents(c.GetBoolContents(), shape, n)
	case tensor.Int8:
		return narrow[int32, int8](c.GetIntContents(), shape, n, math.MinInt8, math.MaxInt8)
	case tensor.Int16:
		return narrow[int32, int16](c.GetIntContents(), shape, n, math.MinInt16, math.MaxInt16)
	case tensor.Int32:
		return contents(c.GetIntContents(), shape, n)
	case tensor.Int64:
		return contents(c.GetInt64Contents(), shape, n)
	case tensor.Uint8:
		return narrow[uint32, uint8](c.GetUintContents(), shape, n, 0, math.MaxUint8)
	case tensor.Uint16:
		return narrow[uint32, uint16](c.GetUintContents(), shape, n, 0, math.MaxUint16)
	case tensor.Uint32:
		return contents(c.GetUintContents(), shape, n)
	case tensor.Uint64:
		return contents(c.GetUint64Contents(), shape, n)
	case tensor.Float32:
		return contents(c.GetFp32Contents(), shape, n)
	case tensor.Float64:
		return contents(c.GetFp64Contents(), shape, n)
	case tensor.String:
		list := c.GetBytesContents()
		if len(list) != n {
			return nil, invalid.errorf("expected %d elements for the shape %v, found %d", n, shape, len(list))
		}
		texts := make([]string, n)
		for i, b := range list {
			texts[i] = string(b)
		}
		return tensor.FromStrings(texts, shape...), nil
	}
	return nil, invalid.errorf("%s has no contents by type; send it in raw_input_contents", in.GetDatatype())
}

func contents[T tensor.Elem](v []T, shape []int, n int) (*tensor.Tensor, error) {
	if len(v) != n {
		return nil, invalid.errorf("expected %d elements for the shape %v, found %d", n, shape, len(v))
	}
	if n == 0 {
		v = []T{}
	}
	return tensor.FromSlice(v, shape...), nil
}

// narrow makes a tensor of a narrower type than that of the contents.
func narrow[F int32 | uint32, T interface {
	tensor.Elem
	int8 | int16 | uint8 | uint16
}](v []F, shape []int, n int, lo, hi F) (*tensor.Tensor, error) {
	out := make([]T, len(v))
	for i, x := range v {
		if x < lo || x > hi {
			return nil, invalid.errorf("element %d: expected %d to %d, found %d", i, lo, hi, x)
		}
		out[i] = T(x)
	}
	return contents(out, shape, n)
}

// grpcResponse writes an answer, with all outputs as raw contents.
func grpcResponse(out *response) (*pb.ModelInferResponse, error) {
	m := &pb.ModelInferResponse{ModelName: out.model, ModelVersion: out.version, Id: out.id}
	if out.ended {
		m.Parameters = map[string]*pb.InferParameter{
			"essmc_draining": {ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: true}}}
	}
	for _, o := range out.outputs {
		raw, err := wire.Encode(o.data)
		if err != nil {
			return nil, internal.errorf("output %q: %w", o.name, err)
		}
		name, _ := wire.Name(o.data.DType())
		m.Outputs = append(m.Outputs, &pb.ModelInferResponse_InferOutputTensor{Name: o.name, Datatype: name,
			Shape: wire.Dims(o.data)})
		m.RawOutputContents = append(m.RawOutputContents, raw)
	}
	return m, nil
}
