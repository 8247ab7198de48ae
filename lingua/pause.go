// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

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
