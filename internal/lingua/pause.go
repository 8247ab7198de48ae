// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "context"

type pauseKey struct{}

// WithPause has a run call f between the layers of the model, where it may wait.
// An error of f ends the run.
func WithPause(ctx context.Context, f func(context.Context) error) context.Context {
	return context.WithValue(ctx, pauseKey{}, f)
}

// pause waits where a run is to, and reports whether it is to end.
func pause(ctx context.Context) error {
	if f, ok := ctx.Value(pauseKey{}).(func(context.Context) error); ok {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}
