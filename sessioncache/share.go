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

package sessioncache

import "container/list"

// share is what one tenant holds of a store.
type share struct {
	sessions list.List // of *Session, the one used last first
	bytes    int64
	at       int // in shares
}

// idle is the session not used for longest of those that nobody uses, nil if all
// are in use.
func (t *share) idle() *Session {
	for e := t.sessions.Back(); e != nil; e = e.Prev() {
		if s := e.Value.(*Session); s.pins == 0 {
			return s
		}
	}
	return nil
}

// shares is a heap of the tenants of a store, with the one that holds most at its
// top. Whoever needs room takes it from there: a tenant, however many sessions it
// makes, pushes out its own once it holds as much as any other.
type shares []*share

// spare is the session that goes next, nil if all are in use.
func (h shares) spare() *Session {
	if len(h) == 0 {
		return nil
	}
	if s := h[0].idle(); s != nil {
		return s
	}
	var most *share
	for _, t := range h[1:] {
		if (most == nil || t.bytes > most.bytes) && t.idle() != nil {
			most = t
		}
	}
	if most == nil {
		return nil
	}
	return most.idle()
}

func (h shares) Len() int           { return len(h) }
func (h shares) Less(i, j int) bool { return h[i].bytes > h[j].bytes }
func (h shares) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *shares) Push(x any) {
	t := x.(*share)
	t.at = len(*h)
	*h = append(*h, t)
}

func (h *shares) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}
