// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"net/http"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

const maxStored = 64 << 20

// stored has the items of the stored responses by credential and id, output included.
type stored struct {
	mu    sync.Mutex
	kept  map[[2]string][]byte
	bytes int
}

// open completes a request that continues a stored response, any number of times.
func (s *stored) open(r *http.Request, v *wire.View) ([]byte, *Failure) {
	if !v.Conversation.Partial || v.Conversation.Continues == "" {
		return v.Raw, nil
	}
	s.mu.Lock()
	items, ok := s.kept[[2]string{credential(r), v.Conversation.Continues}]
	s.mu.Unlock()
	if !ok {
		return nil, &Failure{
			Status: http.StatusBadRequest, Code: "previous_response_not_found", Param: "previous_response_id",
			Message: "Previous response with id '" + v.Conversation.Continues + "' not found.",
		}
	}
	// Instructions and tools are not carried over: each request has its own.
	input := between(items, itemsOf(v.Raw))
	body, err := wire.Patch(v.Raw, wire.Member{Name: "previous_response_id"}, wire.Member{Name: "input", Value: input})
	if err != nil {
		return nil, &Failure{Status: http.StatusBadRequest, Message: err.Error()}
	}
	return body, nil
}

func (s *stored) keep(r *http.Request, c *query) {
	items := between(itemsOf(c.view.Raw), encode(responses{}.items(c)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes += len(items); s.kept == nil || s.bytes > maxStored {
		s.kept, s.bytes = make(map[[2]string][]byte), len(items)
	}
	s.kept[[2]string{credential(r), "resp_" + c.id}] = items
}

func itemsOf(body []byte) []byte {
	input := gjson.GetBytes(body, "input")
	if input.Type == gjson.String {
		return []byte(`[{"role":"user","content":` + input.Raw + `}]`)
	}
	return []byte(input.Raw)
}

func between(lists ...[]byte) []byte {
	out := []byte{'['}
	for _, l := range lists {
		if l = bytes.TrimSpace(l); len(l) < 2 {
			continue
		}
		if l = bytes.TrimSpace(l[1 : len(l)-1]); len(l) > 0 && len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, l...)
	}
	return append(out, ']')
}
