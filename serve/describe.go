package serve

import (
	"cmp"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	pb "github.com/essmc/essmc/serve/internal/inference"
	"github.com/essmc/essmc/serve/internal/wire"
)

// backend is the name of the backend in configurations, as Triton has it.
const backend = "essmc"

// extensions that are served, in the metadata.
var served = []string{"binary_tensor_data", "model_configuration", "model_repository", "sequence", "statistics"}

func (s *Server) serverMetadata() *pb.ServerMetadataResponse {
	return &pb.ServerMetadataResponse{Name: backend, Version: s.o.Version, Extensions: served}
}

// platform names the kind of file that a model was opened from.
func (v *version) platform() string {
	switch v.kind {
	case open.Directory:
		return "essmc_directory"
	case open.Plan:
		return "essmc_plan"
	case open.ONNX:
		return "essmc_onnx"
	}
	return "essmc_text"
}

// dims returns the dimensions of a port, -1 for those that vary.
func dims(p runtime.Port) []int64 {
	t := p.Type.(*ir.TensorType)
	if t.NoRank {
		return []int64{-1}
	}
	out := make([]int64, len(t.Shape))
	for i, d := range t.Shape {
		out[i] = -1
		if n, ok := d.Known(); ok {
			out[i] = n
		}
	}
	return out
}

func portNamed(name string) func(runtime.Port) bool {
	return func(p runtime.Port) bool { return p.Name == name }
}

func datatype(p runtime.Port) string {
	name, _ := wire.Name(p.Type.(*ir.TensorType).Elem) // check has seen it
	return name
}

func (s *Server) modelMetadata(name, number string) (*pb.ModelMetadataResponse, error) {
	v, err := s.repo.find(name, number)
	if err != nil {
		return nil, err
	}
	defer v.done()
	m := &pb.ModelMetadataResponse{Name: v.name, Versions: numbers(s.repo.slots(name)), Platform: v.platform()}
	for _, p := range v.inputs {
		m.Inputs = append(m.Inputs, tensorMetadata(p))
	}
	for _, p := range v.outputs {
		m.Outputs = append(m.Outputs, tensorMetadata(p))
	}
	return m, nil
}

func tensorMetadata(p runtime.Port) *pb.ModelMetadataResponse_TensorMetadata {
	return &pb.ModelMetadataResponse_TensorMetadata{Name: p.Name, Datatype: datatype(p), Shape: dims(p)}
}

var configTypes = map[tensor.DType]pb.DataType{
	tensor.Bool: pb.DataType_TYPE_BOOL, tensor.Uint8: pb.DataType_TYPE_UINT8, tensor.Uint16: pb.DataType_TYPE_UINT16,
	tensor.Uint32: pb.DataType_TYPE_UINT32, tensor.Uint64: pb.DataType_TYPE_UINT64, tensor.Int8: pb.DataType_TYPE_INT8,
	tensor.Int16: pb.DataType_TYPE_INT16, tensor.Int32: pb.DataType_TYPE_INT32, tensor.Int64: pb.DataType_TYPE_INT64,
	tensor.Float16: pb.DataType_TYPE_FP16, tensor.Float32: pb.DataType_TYPE_FP32, tensor.Float64: pb.DataType_TYPE_FP64,
	tensor.String: pb.DataType_TYPE_STRING, tensor.BFloat16: pb.DataType_TYPE_BF16,
}

// modelConfig describes a model as Triton does. If requests are joined along the first axis, max_batch_size is set, and
// the dimensions are without that axis.
func (s *Server) modelConfig(name, number string) (*pb.ModelConfig, error) {
	v, err := s.repo.find(name, number)
	if err != nil {
		return nil, err
	}
	defer v.done()
	c := &pb.ModelConfig{Name: v.name, Platform: v.platform(), Backend: backend,
		Parameters: map[string]*pb.ModelParameter{}}
	joined, why := v.q.Joined()
	cut := 0
	if joined && v.q.Axis() == 0 {
		cut, c.MaxBatchSize = 1, int32(v.q.Max())
	}
	for _, p := range v.inputs {
		c.Input = append(c.Input, &pb.ModelInput{Name: p.Name, DataType: configTypes[p.Type.(*ir.TensorType).Elem],
			Dims: dims(p)[cut:], Optional: p.Optional})
		v.columns(c, p)
	}
	for _, p := range v.outputs {
		c.Output = append(c.Output, &pb.ModelOutput{Name: p.Name, DataType: configTypes[p.Type.(*ir.TensorType).Elem],
			Dims: dims(p)[cut:]})
		v.columns(c, p)
	}
	c.InstanceGroup = []*pb.ModelInstanceGroup{{Name: v.name, Count: int32(v.q.Workers()),
		Kind: pb.ModelInstanceGroup_KIND_CPU}}
	if joined {
		b := v.o.Batch
		d := &pb.ModelDynamicBatching{MaxQueueDelayMicroseconds: uint64(b.Delay.Microseconds()),
			PriorityLevels: uint64(b.Levels), DefaultPriorityLevel: uint64(cmp.Or(b.Default, b.Levels)),
			DefaultQueuePolicy: &pb.ModelQueuePolicy{MaxQueueSize: uint32(v.q.Limit())}}
		for _, n := range b.Preferred {
			d.PreferredBatchSize = append(d.PreferredBatchSize, int32(n))
		}
		c.SchedulingChoice = &pb.ModelConfig_DynamicBatching{DynamicBatching: d}
	}
	set := func(key, value string) {
		if value != "" {
			c.Parameters[key] = &pb.ModelParameter{StringValue: value}
		}
	}
	set("essmc.batching", map[bool]string{true: "requests are joined", false: "requests run singly: " + why}[joined])
	set("essmc.streams", map[bool]string{true: "sequences", false: "no sequences: " + v.why}[v.why == ""])
	set("essmc.state_bytes", map[bool]string{true: strconv.FormatInt(v.stateBytes, 10)}[v.why == ""])
	return c, nil
}

// columns describes the columns of a port that has maps in the model's file.
func (v *version) columns(c *pb.ModelConfig, p runtime.Port) {
	if p.Keys != "" {
		c.Parameters["essmc.columns."+p.Name] = &pb.ModelParameter{StringValue: p.Keys}
	}
}

func (d duration) pb() *pb.StatisticDuration {
	return &pb.StatisticDuration{Count: d.count, Ns: uint64(d.time)}
}

// modelStatistics describes what versions have done: one, all of a model, or all.
func (s *Server) modelStatistics(name, number string) (*pb.ModelStatisticsResponse, error) {
	if name != "" {
		v, err := s.repo.find(name, number)
		if err != nil {
			return nil, err
		}
		v.done()
	}
	out := &pb.ModelStatisticsResponse{}
	s.repo.each(func(n, num string, slot *slot) {
		if slot.v == nil || name != "" && n != name || number != "" && num != number {
			return
		}
		st := &slot.v.stats
		st.mu.Lock()
		defer st.mu.Unlock()
		m := &pb.ModelStatistics{Name: n, Version: num, InferenceCount: st.inferences, ExecutionCount: st.executions,
			InferenceStats: &pb.InferStatistics{Success: st.success.pb(), Fail: st.fail.pb(), Queue: st.waited.pb(),
				ComputeInput: &pb.StatisticDuration{}, ComputeInfer: st.ranFor.pb(),
				ComputeOutput: &pb.StatisticDuration{}}}
		if !st.last.IsZero() {
			m.LastInference = uint64(st.last.UnixMilli())
		}
		for size, d := range st.batches {
			m.BatchStats = append(m.BatchStats, &pb.InferBatchStatistics{BatchSize: uint64(size),
				ComputeInput: &pb.StatisticDuration{}, ComputeInfer: d.pb(), ComputeOutput: &pb.StatisticDuration{}})
		}
		slices.SortFunc(m.BatchStats, func(a, b *pb.InferBatchStatistics) int {
			return cmp.Compare(a.BatchSize, b.BatchSize)
		})
		out.ModelStats = append(out.ModelStats, m)
	})
	return out, nil
}

// index lists the repository.
func (s *Server) index(ready bool) *pb.RepositoryIndexResponse {
	out := &pb.RepositoryIndexResponse{}
	for _, m := range s.Models() {
		state := "READY"
		if m.Reason != "" {
			state = "UNAVAILABLE"
		}
		if !ready || m.Reason == "" {
			out.Models = append(out.Models, &pb.RepositoryIndexResponse_ModelIndex{Name: m.Name, Version: m.Version,
				State: state, Reason: m.Reason})
		}
	}
	return out
}

// object returns a message as the protocol's REST form has it: names of fields as they are in the specification,
// numbers as numbers, and all fields that are not messages.
func object(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := string(f.Name())
		switch v := m.Get(f); {
		case f.IsMap():
			values := map[string]any{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				values[k.String()] = plain(f.MapValue(), v)
				return true
			})
			out[name] = values
		case f.IsList():
			list := make([]any, v.List().Len())
			for i := range list {
				list[i] = plain(f, v.List().Get(i))
			}
			out[name] = list
		case f.Message() == nil && f.ContainingOneof() == nil || m.Has(f):
			out[name] = plain(f, v)
		}
	}
	return out
}

// plain returns a value that is neither a list nor a map.
func plain(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.Message() != nil:
		return object(v.Message())
	case f.Enum() != nil:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
	}
	return v.Interface()
}
