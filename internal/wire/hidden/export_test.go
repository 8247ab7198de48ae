// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package hidden

// Remembered returns how much is remembered of the answer that came last.
func (r *Interceptor) Remembered() (blocks, parts int) { return r.m.Begun, len(r.m.Now.Parts) }

// Size returns how many bytes are remembered.
func (r *Interceptor) Size() int { return r.m.size }

// Forget forgets what the last event tells of the next ones.
func (r *Interceptor) Forget() { r.same.Forget() }

// Alike reports whether an event is read by the one before.
func (r *Interceptor) Alike(data []byte) bool {
	_, ok := r.same.Match(data)
	return ok
}
