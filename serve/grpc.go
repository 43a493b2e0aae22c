package serve

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"

	pb "github.com/essmc/essmc/serve/internal/inference"
)

// Names that gRPC generates are long.
type (
	checkRequest  = grpc_health_v1.HealthCheckRequest
	checkResponse = grpc_health_v1.HealthCheckResponse
	streamServer  = grpc.BidiStreamingServer[pb.ModelInferRequest, pb.ModelStreamInferResponse]
)

// GRPC returns a server of the protocol over gRPC, with health and reflection.
func (s *Server) GRPC() *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(recoverCall), grpc.StreamInterceptor(recoverStream),
		grpc.MaxRecvMsgSize(int(s.o.Limits.Body)), grpc.MaxSendMsgSize(1<<31-1),
		grpc.MaxHeaderListSize(uint32(s.o.Limits.Header)), grpc.MaxConcurrentStreams(uint32(s.o.Limits.Requests)),
		grpc.ConnectionTimeout(s.o.Limits.Head),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: s.o.Limits.Idle, Time: time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}))
	pb.RegisterGRPCInferenceServiceServer(server, &service{s: s})
	watched := health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, &healthService{watched, s})
	go func() {
		<-s.drained
		watched.Shutdown()
	}()
	o := reflection.ServerOptions{Services: server, DescriptorResolver: pb.Resolver{}}
	grpc_reflection_v1.RegisterServerReflectionServer(server, reflection.NewServerV1(o))
	grpc_reflection_v1alpha.RegisterServerReflectionServer(server, reflection.NewServer(o))
	return server
}

// recoverCall makes an error of a panic, which is a bug. net/http does so by itself.
func recoverCall(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
	defer recovered(&err)
	return next(ctx, r)
}

// recoverStream is recoverCall for streams.
func recoverStream(s any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer recovered(&err)
	return next(s, stream)
}

func recovered(err *error) {
	if v := recover(); v != nil {
		*err = status.Errorf(codes.Internal, "internal error: %v", v)
	}
}

// healthService answers for the server, and for its models by their names.
type healthService struct {
	*health.Server
	s *Server
}

// Check reports whether the server, or a model, is ready.
func (h *healthService) Check(_ context.Context, r *checkRequest) (*checkResponse, error) {
	state := grpc_health_v1.HealthCheckResponse_SERVING
	if name := r.GetService(); name != "" && name != pb.GRPCInferenceService_ServiceDesc.ServiceName {
		v, err := h.s.repo.find(name, "")
		if e := (*Error)(nil); errors.As(err, &e) && e.fault == notFound {
			return nil, status.Error(codes.NotFound, e.Error())
		}
		if err != nil {
			state = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		} else {
			v.done()
		}
	}
	if !h.s.Ready() {
		state = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return &checkResponse{Status: state}, nil
}

// service is the protocol over gRPC.
type service struct {
	pb.UnimplementedGRPCInferenceServiceServer
	s *Server
}

// call runs f, and logs it.
func grpcCall[T any](ctx context.Context, s *Server, l accessLine, f func() (T, error)) (T, error) {
	start := time.Now()
	out, err := f()
	l.Protocol, l.Result = "grpc", "ok"
	if p, ok := peer.FromContext(ctx); ok {
		l.Remote = p.Addr.String()
	}
	if err != nil {
		e := errorOf(err)
		l.Result = e.fault.name
		err = status.Error(e.fault.code, e.Error())
	}
	s.log(l, start)
	return out, err
}

func (g *service) ServerLive(context.Context, *pb.ServerLiveRequest) (*pb.ServerLiveResponse, error) {
	return &pb.ServerLiveResponse{Live: true}, nil
}

func (g *service) ServerReady(context.Context, *pb.ServerReadyRequest) (*pb.ServerReadyResponse, error) {
	return &pb.ServerReadyResponse{Ready: g.s.Ready()}, nil
}

func (g *service) ServerMetadata(context.Context, *pb.ServerMetadataRequest) (*pb.ServerMetadataResponse, error) {
	return g.s.serverMetadata(), nil
}

func (g *service) ModelReady(_ context.Context, r *pb.ModelReadyRequest) (*pb.ModelReadyResponse, error) {
	v, err := g.s.repo.find(r.GetName(), r.GetVersion())
	if err == nil {
		v.done()
	}
	return &pb.ModelReadyResponse{Ready: err == nil}, nil
}

func (g *service) ModelMetadata(ctx context.Context, r *pb.ModelMetadataRequest) (*pb.ModelMetadataResponse, error) {
	return grpcCall(ctx, g.s, accessLine{Call: "model_metadata", Model: r.GetName(), Version: r.GetVersion()},
		func() (*pb.ModelMetadataResponse, error) { return g.s.modelMetadata(r.GetName(), r.GetVersion()) })
}

func (g *service) ModelConfig(ctx context.Context, r *pb.ModelConfigRequest) (*pb.ModelConfigResponse, error) {
	return grpcCall(ctx, g.s, accessLine{Call: "model_config", Model: r.GetName(), Version: r.GetVersion()},
		func() (*pb.ModelConfigResponse, error) {
			c, err := g.s.modelConfig(r.GetName(), r.GetVersion())
			return &pb.ModelConfigResponse{Config: c}, err
		})
}

func (g *service) ModelStatistics(ctx context.Context, r *pb.ModelStatisticsRequest) (*pb.ModelStatisticsResponse, error) {
	return grpcCall(ctx, g.s, accessLine{Call: "model_statistics", Model: r.GetName(), Version: r.GetVersion()},
		func() (*pb.ModelStatisticsResponse, error) { return g.s.modelStatistics(r.GetName(), r.GetVersion()) })
}

func (g *service) RepositoryIndex(_ context.Context, r *pb.RepositoryIndexRequest) (*pb.RepositoryIndexResponse, error) {
	return g.s.index(r.GetReady()), nil
}

func (g *service) RepositoryModelLoad(ctx context.Context, r *pb.RepositoryModelLoadRequest) (
	*pb.RepositoryModelLoadResponse, error) {
	return grpcCall(ctx, g.s, accessLine{Call: "repository_load", Model: r.GetModelName()},
		func() (*pb.RepositoryModelLoadResponse, error) {
			if len(r.GetParameters()) > 0 {
				return nil, unsupported.errorf("essmc does not implement parameters of RepositoryModelLoad")
			}
			return &pb.RepositoryModelLoadResponse{}, g.s.setLoaded(ctx, r.GetModelName(), true)
		})
}

func (g *service) RepositoryModelUnload(ctx context.Context, r *pb.RepositoryModelUnloadRequest) (
	*pb.RepositoryModelUnloadResponse, error) {
	return grpcCall(ctx, g.s, accessLine{Call: "repository_unload", Model: r.GetModelName()},
		func() (*pb.RepositoryModelUnloadResponse, error) {
			return &pb.RepositoryModelUnloadResponse{}, g.s.setLoaded(ctx, r.GetModelName(), false)
		})
}

func (g *service) ModelInfer(ctx context.Context, m *pb.ModelInferRequest) (*pb.ModelInferResponse, error) {
	return g.infer(ctx, m, nil, "infer")
}

func (g *service) infer(ctx context.Context, m *pb.ModelInferRequest, own *sessions, name string) (
	*pb.ModelInferResponse, error) {
	line := accessLine{Call: name, Model: m.GetModelName(), Version: m.GetModelVersion(), ID: m.GetId()}
	return grpcCall(ctx, g.s, line, func() (*pb.ModelInferResponse, error) {
		r, err := grpcRequest(m)
		if err != nil {
			return nil, err
		}
		out, err := g.s.infer(ctx, r, own)
		if err != nil {
			return nil, err
		}
		return grpcResponse(out)
	})
}

// received is a message of a bidirectional stream.
type received struct {
	m   *pb.ModelInferRequest
	err error
}

// ModelStreamInfer answers the requests of a connection, in their order. Sessions (essmc_session) end with it. When the
// server drains, the state of each session is sent, and the connection ends.
func (g *service) ModelStreamInfer(stream streamServer) error {
	own := &sessions{of: map[string]*sequence{}}
	defer own.close(g.s)
	in := make(chan received)
	ctx := stream.Context()
	go func() {
		for {
			m, err := stream.Recv()
			select {
			case in <- received{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		var next received
		select {
		case next = <-in:
		case <-g.s.drained:
			return g.handOver(stream, own)
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
		if errors.Is(next.err, io.EOF) {
			return nil
		}
		if next.err != nil {
			return next.err
		}
		answer := &pb.ModelStreamInferResponse{}
		var err error
		if answer.InferResponse, err = g.infer(ctx, next.m, own, "stream_infer"); err != nil {
			answer.ErrorMessage = status.Convert(err).Message()
			answer.InferResponse = &pb.ModelInferResponse{ModelName: next.m.GetModelName(),
				ModelVersion: next.m.GetModelVersion(), Id: next.m.GetId()}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// handOver sends the states of the sessions of a connection, for another replica.
func (g *service) handOver(stream streamServer, own *sessions) error {
	for _, q := range own.of {
		if q.over {
			continue
		}
		state, err := g.s.sealed(q)
		if err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
		m, err := grpcResponse(&response{model: q.v.name, version: q.v.number, ended: true,
			outputs: []output{{stateName, state, true}}})
		if err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
		if err := stream.Send(&pb.ModelStreamInferResponse{InferResponse: m}); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "the server is shutting down")
}

// List lists the models with the server, for clients of health that ask for all.
func (h *healthService) List(ctx context.Context, _ *grpc_health_v1.HealthListRequest) (
	*grpc_health_v1.HealthListResponse, error) {
	out := &grpc_health_v1.HealthListResponse{Statuses: map[string]*checkResponse{}}
	for _, name := range slices.Concat([]string{""}, h.s.repo.names()) {
		state, err := h.Check(ctx, &checkRequest{Service: name})
		if err == nil {
			out.Statuses[name] = state
		}
	}
	return out, nil
}
