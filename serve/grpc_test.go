package serve

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/essmc/essmc/ir/tensor"
	pb "github.com/essmc/essmc/serve/internal/inference"
	"github.com/essmc/essmc/serve/internal/wire"
)

// dial serves the protocol over gRPC, in memory.
func dial(t *testing.T, s *Server) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	server := s.GRPC()
	go func() { _ = server.Serve(l) }()
	c, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		server.Stop()
	})
	return c
}

// input makes an input with raw contents.
func input(t *testing.T, name string, x *tensor.Tensor) (*pb.ModelInferRequest_InferInputTensor, []byte) {
	t.Helper()
	raw, err := wire.Encode(x)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := wire.Name(x.DType())
	return &pb.ModelInferRequest_InferInputTensor{Name: name, Datatype: d, Shape: wire.Dims(x)}, raw
}

// asks makes a request with one input.
func asks(t *testing.T, model, name string, x *tensor.Tensor) *pb.ModelInferRequest {
	t.Helper()
	in, raw := input(t, name, x)
	return &pb.ModelInferRequest{ModelName: model, Inputs: []*pb.ModelInferRequest_InferInputTensor{in}, RawInputContents: [][]byte{raw}}
}

// floats returns output i.
func floats(t *testing.T, m *pb.ModelInferResponse, i int) *tensor.Tensor {
	t.Helper()
	x, err := wire.Decode(tensor.Float32, m.GetOutputs()[i].GetShape(), m.GetRawOutputContents()[i])
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func with(m *pb.ModelInferRequest, params map[string]any) *pb.ModelInferRequest {
	m.Parameters = map[string]*pb.InferParameter{}
	for name, v := range params {
		p := &pb.InferParameter{}
		switch v := v.(type) {
		case bool:
			p.ParameterChoice = &pb.InferParameter_BoolParam{BoolParam: v}
		case int:
			p.ParameterChoice = &pb.InferParameter_Int64Param{Int64Param: int64(v)}
		case string:
			p.ParameterChoice = &pb.InferParameter_StringParam{StringParam: v}
		}
		m.Parameters[name] = p
	}
	return m
}

// Every call of the protocol.
func TestGRPC(t *testing.T) {
	s := start(t, Options{Dir: example(t), Version: "1.2.3", Repository: true})
	conn := dial(t, s)
	c := pb.NewGRPCInferenceServiceClient(conn)
	ctx := t.Context()
	if m, err := c.ServerLive(ctx, &pb.ServerLiveRequest{}); err != nil || !m.GetLive() {
		t.Error(m, err)
	}
	if m, err := c.ServerReady(ctx, &pb.ServerReadyRequest{}); err != nil || !m.GetReady() {
		t.Error(m, err)
	}
	if m, err := c.ServerMetadata(ctx, &pb.ServerMetadataRequest{}); err != nil || m.GetName() != "essmc" || m.GetVersion() != "1.2.3" {
		t.Error(m, err)
	}
	for name, want := range map[string]bool{"mymodel": true, "other": false} {
		if m, err := c.ModelReady(ctx, &pb.ModelReadyRequest{Name: name}); err != nil || m.GetReady() != want {
			t.Error(name, m, err)
		}
	}
	if m, err := c.ModelMetadata(ctx, &pb.ModelMetadataRequest{Name: "mymodel", Version: "1"}); err != nil || len(m.GetInputs()) != 2 ||
		m.GetInputs()[0].GetDatatype() != "UINT32" || m.GetOutputs()[0].GetShape()[0] != 3 {
		t.Error(m, err)
	}
	if m, err := c.ModelConfig(ctx, &pb.ModelConfigRequest{Name: "mymodel"}); err != nil || m.GetConfig().GetInput()[1].GetDataType() != pb.DataType_TYPE_BOOL {
		t.Error(m, err)
	}
	a, rawA := input(t, "input0", tensor.FromSlice([]uint32{1, 2, 3, 4}, 2, 2))
	b, rawB := input(t, "input1", tensor.FromSlice([]bool{true, false, true}, 3))
	want := tensor.FromSlice([]float32{10, 10, 0, 0, 10, 10}, 3, 2)
	r := &pb.ModelInferRequest{ModelName: "mymodel", Id: "42", Inputs: []*pb.ModelInferRequest_InferInputTensor{a, b},
		RawInputContents: [][]byte{rawA, rawB}}
	for _, o := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		m, err := c.ModelInfer(ctx, r, o...)
		if err != nil || m.GetId() != "42" || m.GetModelVersion() != "1" || !tensor.Equal(floats(t, m, 0), want) {
			t.Error(m, err)
		}
	}
	a.Contents = &pb.InferTensorContents{UintContents: []uint32{1, 2, 3, 4}}
	b.Contents = &pb.InferTensorContents{BoolContents: []bool{true, false, true}}
	r.RawInputContents = nil
	if m, err := c.ModelInfer(ctx, r); err != nil || !tensor.Equal(floats(t, m, 0), want) {
		t.Error(m, err)
	}
	if m, err := c.ModelStatistics(ctx, &pb.ModelStatisticsRequest{}); err != nil || m.GetModelStats()[0].GetInferenceStats().GetSuccess().GetCount() != 3 {
		t.Error(m, err)
	}
	if m, err := c.RepositoryIndex(ctx, &pb.RepositoryIndexRequest{}); err != nil || m.GetModels()[0].GetState() != "READY" {
		t.Error(m, err)
	}
	if _, err := c.RepositoryModelUnload(ctx, &pb.RepositoryModelUnloadRequest{ModelName: "mymodel"}); err != nil {
		t.Error(err)
	}
	if _, err := c.ModelInfer(ctx, r); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if _, err := c.RepositoryModelLoad(ctx, &pb.RepositoryModelLoadRequest{ModelName: "mymodel"}); err != nil {
		t.Error(err)
	}
	if _, err := c.ModelInfer(ctx, r); err != nil {
		t.Error(err)
	}
	for _, call := range []string{"SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "CudaSharedMemoryRegister", "TraceSetting", "LogSettings"} {
		err := conn.Invoke(ctx, "/inference.GRPCInferenceService/"+call, &pb.ServerLiveRequest{}, &pb.ServerLiveResponse{})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Every datatype by its contents, and raw.
func TestGRPCDatatypes(t *testing.T) {
	dir := t.TempDir()
	for elem := range elements() {
		identity(t, elem, dir, elem+".txt")
	}
	c := pb.NewGRPCInferenceServiceClient(dial(t, start(t, Options{Dir: dir})))
	by := map[string]*pb.InferTensorContents{
		"bool": {BoolContents: []bool{true, false}}, "uint8": {UintContents: []uint32{0, 255}}, "uint16": {UintContents: []uint32{0, 65535}},
		"uint32": {UintContents: []uint32{0, 1 << 31}}, "uint64": {Uint64Contents: []uint64{0, 1 << 63}},
		"int8": {IntContents: []int32{-128, 127}}, "int16": {IntContents: []int32{-32768, 1}}, "int32": {IntContents: []int32{-1 << 31, 1}},
		"int64": {Int64Contents: []int64{-1 << 63, 1}}, "float": {Fp32Contents: []float32{0.1, -1e30}},
		"double": {Fp64Contents: []float64{0.1, 1e300}}, "string": {BytesContents: [][]byte{[]byte("ä"), {}}},
	}
	for elem, x := range elements() {
		r := asks(t, elem, "x", x)
		raw := r.GetRawInputContents()[0]
		m, err := c.ModelInfer(t.Context(), r)
		if err != nil || string(m.GetRawOutputContents()[0]) != string(raw) {
			t.Errorf("%s raw: %v, %v", elem, m, err)
		}
		r.RawInputContents = nil
		if r.Inputs[0].Contents = by[elem]; by[elem] == nil {
			if _, err := c.ModelInfer(t.Context(), r); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "raw_input_contents") {
				t.Errorf("%s by its type: %v", elem, err)
			}
			continue
		}
		if m, err = c.ModelInfer(t.Context(), r); err != nil || string(m.GetRawOutputContents()[0]) != string(raw) {
			t.Errorf("%s: %v, %v", elem, m, err)
		}
	}
}

func TestGRPCBad(t *testing.T) {
	dir := t.TempDir()
	identity(t, "int8", dir, "m.txt")
	s := start(t, Options{Dir: dir, Limits: Limits{Body: 1 << 16}})
	c := pb.NewGRPCInferenceServiceClient(dial(t, s))
	ok := func() *pb.ModelInferRequest { return asks(t, "m", "x", tensor.FromSlice([]int8{1, 2}, 1, 2)) }
	for what, c2 := range map[string]struct {
		change func(r *pb.ModelInferRequest)
		code   codes.Code
		want   string
	}{
		"model":      {func(r *pb.ModelInferRequest) { r.ModelName = "w" }, codes.NotFound, "not served"},
		"version":    {func(r *pb.ModelInferRequest) { r.ModelVersion = "9" }, codes.NotFound, "version"},
		"raw size":   {func(r *pb.ModelInferRequest) { r.RawInputContents[0] = []byte{1} }, codes.InvalidArgument, "expected 2 bytes"},
		"raw number": {func(r *pb.ModelInferRequest) { r.RawInputContents = make([][]byte, 2) }, codes.InvalidArgument, "one for each input"},
		"both":       {func(r *pb.ModelInferRequest) { r.Inputs[0].Contents = &pb.InferTensorContents{} }, codes.InvalidArgument, "both"},
		"range": {func(r *pb.ModelInferRequest) {
			r.RawInputContents, r.Inputs[0].Contents = nil, &pb.InferTensorContents{IntContents: []int32{1, 200}}
		}, codes.InvalidArgument, "expected -128 to 127"},
		"no contents": {func(r *pb.ModelInferRequest) { r.RawInputContents = nil }, codes.InvalidArgument, "expected 2 elements"},
		"shape":       {func(r *pb.ModelInferRequest) { r.Inputs[0].Shape[0] = -1 }, codes.InvalidArgument, "dimension 0"},
		"datatype":    {func(r *pb.ModelInferRequest) { r.Inputs[0].Datatype = "X" }, codes.InvalidArgument, "datatype"},
		"output": {func(r *pb.ModelInferRequest) {
			r.Outputs = []*pb.ModelInferRequest_InferRequestedOutputTensor{{Name: "w"}}
		}, codes.InvalidArgument, "no output"},
		"size": {func(r *pb.ModelInferRequest) {
			r.Inputs[0].Shape[1], r.RawInputContents[0] = 1<<17, make([]byte, 1<<17)
		}, codes.ResourceExhausted, "larger than max"},
	} {
		r := ok()
		c2.change(r)
		if _, err := c.ModelInfer(t.Context(), r); status.Code(err) != c2.code || !strings.Contains(err.Error(), c2.want) {
			t.Errorf("%s: expected %v %q, found %v", what, c2.code, c2.want, err)
		}
	}
	bomb := ok()
	bomb.Inputs[0].Shape[1], bomb.RawInputContents[0] = 1<<17, make([]byte, 1<<17)
	if _, err := c.ModelInfer(t.Context(), bomb, grpc.UseCompressor(gzip.Name)); status.Code(err) != codes.ResourceExhausted {
		t.Error("a bomb:", err)
	}
	var broken error
	func() {
		defer recovered(&broken)
		panic("a bug")
	}()
	if status.Code(broken) != codes.Internal {
		t.Error("a panic:", broken)
	}
	if _, err := c.ModelInfer(t.Context(), ok()); err != nil {
		t.Error("after bad requests:", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := c.ModelInfer(ctx, ok()); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}

// Streams answer in order, with errors in their messages.
func TestStreamInfer(t *testing.T) {
	dir := t.TempDir()
	identity(t, "float", dir, "m.txt")
	c := pb.NewGRPCInferenceServiceClient(dial(t, start(t, Options{Dir: dir})))
	stream, err := c.ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		r := asks(t, "m", "x", noise(uint64(i), 1, 3))
		r.Id = string(rune('a' + i))
		if i == 3 {
			r.ModelName = "w"
		}
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		m, err := stream.Recv()
		if err != nil || m.GetInferResponse().GetId() != string(rune('a'+i)) {
			t.Fatal(i, m, err)
		}
		if bad := i == 3; bad != strings.Contains(m.GetErrorMessage(), "not served") {
			t.Errorf("answer %d: %v", i, m)
		} else if !bad && !tensor.Equal(floats(t, m.GetInferResponse(), 0), noise(uint64(i), 1, 3)) {
			t.Errorf("answer %d: %v", i, m)
		}
	}
}

// Health and reflection work with the clients that grpc has.
func TestHealthAndReflection(t *testing.T) {
	dir := t.TempDir()
	identity(t, "float", dir, "m.txt")
	write(t, "bad", dir, "bad.onnx")
	s := start(t, Options{Dir: dir})
	conn := dial(t, s)
	h := grpc_health_v1.NewHealthClient(conn)
	serving, not := grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING
	check := func(name string, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if m, err := h.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil || m.GetStatus() != want {
			t.Errorf("%q: %v, %v", name, m, err)
		}
	}
	check("", serving)
	check("m", serving)
	check("bad", not)
	check("inference.GRPCInferenceService", serving)
	if _, err := h.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	if m, err := h.List(t.Context(), &grpc_health_v1.HealthListRequest{}); err != nil || len(m.GetStatuses()) != 3 {
		t.Error(m, err)
	}
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "inference.GRPCInferenceService"}}); err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil || len(m.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Fatal(m, err)
	}
	var file descriptorpb.FileDescriptorProto
	if err := proto.Unmarshal(m.GetFileDescriptorResponse().GetFileDescriptorProto()[0], &file); err != nil || file.GetPackage() != "inference" ||
		len(file.GetService()[0].GetMethod()) != 12 {
		t.Error(err, file.GetPackage())
	}
	s.Drain()
	check("", not)
	check("m", not)
}

// A program may link another client of the protocol: our descriptors are not in the global registry, so its are no
// conflict, and the messages of both understand each other.
func TestOtherClient(t *testing.T) {
	if _, err := protoregistry.GlobalFiles.FindFileByPath("service.proto"); err == nil {
		t.Fatal("our descriptors are in the global registry")
	}
	ours, err := pb.Files.FindFileByPath("service.proto")
	if err != nil {
		t.Fatal(err)
	}
	text := protodesc.ToFileDescriptorProto(ours)
	text.Name = proto.String("grpc_service.proto")
	theirs, err := protoregistry.GlobalFiles.FindFileByPath("grpc_service.proto")
	if err != nil { // in the first run of the process
		if theirs, err = protodesc.NewFile(text, protoregistry.GlobalFiles); err != nil {
			t.Fatal(err)
		}
		if err := protoregistry.GlobalFiles.RegisterFile(theirs); err != nil {
			t.Fatal("another client cannot be linked:", err)
		}
		request := dynamicpb.NewMessageType(theirs.Messages().ByName("ModelInferRequest"))
		if err := protoregistry.GlobalTypes.RegisterMessage(request); err != nil {
			t.Fatal(err)
		}
	}
	request := dynamicpb.NewMessageType(theirs.Messages().ByName("ModelInferRequest"))
	dir := t.TempDir()
	identity(t, "float", dir, "m.txt")
	conn := dial(t, start(t, Options{Dir: dir}))
	b, err := proto.Marshal(asks(t, "m", "x", tensor.FromSlice([]float32{1, 2}, 1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	m := request.New().Interface()
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	answer := dynamicpb.NewMessage(theirs.Messages().ByName("ModelInferResponse"))
	if err := conn.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelInfer", m, answer); err != nil {
		t.Fatal(err)
	}
	if got := answer.Get(answer.Descriptor().Fields().ByName("model_name")).String(); got != "m" {
		t.Errorf("found %v", answer)
	}
}

// The numbers of fields are those of the specification, which clients in other languages have.
func TestFieldNumbers(t *testing.T) {
	for name, want := range map[protoreflect.FullName]protowire.Number{
		"inference.ModelInferRequest.raw_input_contents":              7,
		"inference.ModelInferRequest.outputs":                         6,
		"inference.ModelInferRequest.InferInputTensor.contents":       5,
		"inference.ModelInferResponse.raw_output_contents":            6,
		"inference.ModelInferResponse.outputs":                        5,
		"inference.InferTensorContents.bytes_contents":                8,
		"inference.InferTensorContents.fp32_contents":                 6,
		"inference.ModelStreamInferResponse.infer_response":           2,
		"inference.InferParameter.uint64_param":                       5,
		"inference.ModelConfig.max_batch_size":                        4,
		"inference.ModelConfig.dynamic_batching":                      11,
		"inference.ModelConfig.parameters":                            14,
		"inference.ModelConfig.backend":                               17,
		"inference.ModelInput.dims":                                   4,
		"inference.ModelOutput.dims":                                  3,
		"inference.ModelStatistics.batch_stats":                       7,
		"inference.InferStatistics.compute_infer":                     5,
		"inference.RepositoryIndexResponse.ModelIndex.reason":         4,
		"inference.RepositoryModelLoadRequest.model_name":             2,
		"inference.ModelDynamicBatching.max_queue_delay_microseconds": 2,
		"inference.ModelMetadataResponse.TensorMetadata.shape":        3,
	} {
		d, err := pb.Files.FindDescriptorByName(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := d.(protoreflect.FieldDescriptor).Number(); got != want {
			t.Errorf("%s: expected %d, found %d", name, want, got)
		}
	}
}
