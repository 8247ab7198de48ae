// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Unknown members of a request are carried, listed as dropped or refused at every place.
func TestNothingLostSilently(t *testing.T) {
	const stranger = "stranger"
	for _, seed := range clientBodies(t) {
		from := translate.Formats()[seed.format]
		path, query := pathOf(from)
		for _, at := range values(seed.body) {
			object := seed.body[at[0]:at[1]]
			// A deferred schema is not sent. A marker and a grammar are carried by meaning.
			if object[0] != '{' || object == `{"type":"object"}` || object == `{"type":"ephemeral"}` ||
				strings.HasPrefix(object, `{"type":"grammar"`) {
				continue
			}
			body := strings.Replace(seed.body[:at[1]-1]+`,"`+stranger+`":"y"`+seed.body[at[1]-1:], "{,", "{", 1)
			for _, to := range translate.Formats() {
				if to == from {
					continue
				}
				out, err := translate.Convert(from, to, translate.Incoming{Body: []byte(body), Path: path, Query: query},
					translate.Options{})
				if err != nil || strings.Contains(string(out.Body.Bytes()), stranger) {
					continue
				}
				if !slices.ContainsFunc(out.Dropped, func(s string) bool {
					return strings.HasSuffix(s, stranger) || s == around(seed.body, at[0]) || s == "tools[].type" &&
						(strings.Contains(object, "web_search") || strings.Contains(object, "google_search")) || s == "input[].type" &&
						strings.Contains(seed.body[max(at[0]-60, 0):at[1]], "google_search_call")
				}) {
					t.Errorf("%s to %s: lost behind %.80s", from, to, object)
				}
			}
		}
	}
}

// around returns the member of a body that contains a position.
func around(body string, at int) string {
	end := 1
	for key, v := range rawjson.Value(body).Members() {
		if end += strings.Index(body[end:], string(v)) + len(v); at < end {
			return key
		}
	}
	return ""
}
