// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

// Remembered returns the number of bytes remembered of the last answer.
func (r *Interceptor) Remembered() (blocks, parts int) { return r.m.Begun, len(r.m.Now.Parts) }

// Size returns the number of bytes remembered.
func (r *Interceptor) Size() int { return r.m.size }

// Forget drops the event pattern.
func (r *Interceptor) Forget() { r.same.Forget() }

// Alike reports whether an event matches the pattern of the previous one.
func (r *Interceptor) Alike(data []byte) bool {
	_, ok := r.same.Match(data)
	return ok
}
