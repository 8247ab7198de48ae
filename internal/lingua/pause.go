// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import "context"

type pauseKey struct{}

// WithPause makes a run call f between the layers of the model. f may block; an error of f ends the run.
func WithPause(ctx context.Context, f func(context.Context) error) context.Context {
	return context.WithValue(ctx, pauseKey{}, f)
}

// pause calls the function of WithPause, if any, and reports the end of the context.
func pause(ctx context.Context) error {
	if f, ok := ctx.Value(pauseKey{}).(func(context.Context) error); ok {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}
