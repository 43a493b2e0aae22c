#!/bin/sh
# Writes the Go code of service.proto: protoc, protoc-gen-go v1.36.11 and protoc-gen-go-grpc v1.5.1 must be in the PATH.
set -e
protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative service.proto
# Descriptors and types go to the registries of registry.go.
sed -i 's/^\t\tFile: protoimpl.DescBuilder{$/\t\tTypeRegistry: types,\n&\n\t\t\tFileRegistry: Files,/' service.pb.go
gofmt -w service.pb.go service_grpc.pb.go
