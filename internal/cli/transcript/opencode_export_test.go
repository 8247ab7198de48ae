// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestOpencodeExport reads the rows of the database in the form of `opencode export`.
func TestOpencodeExport(t *testing.T) {
	raw, err := os.ReadFile("testdata/opencode/rows.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows struct {
		Session, Message, Part [][]json.RawMessage
	}
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatal(err)
	}
	type message struct {
		Info  json.RawMessage   `json:"info"`
		Parts []json.RawMessage `json:"parts"`
	}
	export := map[string]any{"info": map[string]any{
		"id": rows.Session[0][0], "projectID": "p",
		"directory": rows.Session[0][1],
	}}
	var messages []message
	for _, m := range rows.Message {
		of := message{Info: m[3]}
		for _, p := range rows.Part {
			if string(p[1]) == string(m[0]) {
				of.Parts = append(of.Parts, p[3])
			}
		}
		messages = append(messages, of)
	}
	export["messages"] = messages
	b, err := json.Marshal(export)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "session.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	sources, err := Scan(path)
	if err != nil {
		t.Fatal(err)
	}
	sessions := readAll(t, sources)
	if len(sessions) != 1 || sessions[0].Calls() != 19 || sessions[0].Project != "/home/dev/repository" ||
		sessions[0].ID != sources[0].Session {
		t.Fatalf("%+v of %+v", sessions, sources)
	}
	check(t, sessions[0])

	if err := os.WriteFile(path, b[:len(b)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sources[0].Read(); err == nil {
		t.Error("a cut export was read")
	}
}
