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
