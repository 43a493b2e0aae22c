// Package inference is the generated code of service.proto.
//
// Its descriptors are in a registry of its own. Other clients and servers of the protocol have descriptors with the same
// names, and a program that links both would panic if they were in protoregistry.GlobalFiles.
package inference

import (
	"errors"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

//go:generate ./generate.sh

var (
	// Files has the descriptors of this package.
	Files = new(protoregistry.Files)
	// types has the generated types of this package.
	types = new(protoregistry.Types)
)

// Resolver finds descriptors of this package, and global ones, for reflection.
type Resolver struct{}

// FindFileByPath finds a file, here first.
func (Resolver) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	d, err := Files.FindFileByPath(path)
	if errors.Is(err, protoregistry.NotFound) {
		return protoregistry.GlobalFiles.FindFileByPath(path)
	}
	return d, err
}

// FindDescriptorByName finds a descriptor, here first.
func (Resolver) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	d, err := Files.FindDescriptorByName(name)
	if errors.Is(err, protoregistry.NotFound) {
		return protoregistry.GlobalFiles.FindDescriptorByName(name)
	}
	return d, err
}
