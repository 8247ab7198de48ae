// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"context"
	"reflect"
	"sync"
)

// Instance is the state that the configurations of one Caddy share across reloads. A process has one.
// Tests run several independent ones beside each other.
type Instance struct {
	parts sync.Map // of func() T, by the type T
}

// Process is the instance of all contexts without one of their own.
var Process = new(Instance)

type instanceKey struct{}

// With returns a context of the instance.
func (i *Instance) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, instanceKey{}, i)
}

// Of returns the instance of a context.
func Of(ctx context.Context) *Instance {
	if i, ok := ctx.Value(instanceKey{}).(*Instance); ok {
		return i
	}
	return Process
}

// Part returns a feature's part of an instance, by its type. The first call makes it.
func Part[T any](i *Instance, make func() T) T {
	key := reflect.TypeFor[T]()
	part, ok := i.parts.Load(key)
	if !ok {
		part, _ = i.parts.LoadOrStore(key, sync.OnceValue(make))
	}
	return part.(func() T)()
}

// PoolOf returns the instance's pool of values of a type.
func PoolOf[T Value](i *Instance) *Pool[T] { return Part(i, NewPool[T]) }
