// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"testing"
)

func TestUnreadable(t *testing.T) {
	for contentType, want := range map[string]string{
		"": "", "application/json": "", "application/json; charset=utf-8": "", "APPLICATION/JSON": "", "application/vnd.api+json": "",
		"text/plain": reasonContentType, "application/x-www-form-urlencoded": reasonContentType, ";": reasonContentType, "application/jsonl": reasonContentType,
	} {
		h := http.Header{}
		if contentType != "" {
			h.Set("Content-Type", contentType)
		}
		if got := unreadable(h); got != want {
			t.Errorf("%q: got %q, want %q", contentType, got, want)
		}
	}
}
