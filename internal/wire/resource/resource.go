// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package resource tells what requests are about that ask no model for an answer: answers that
// an API keeps, and whatever else it has beside them.
package resource

import (
	"net/http"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Resource is what a request is about, by its path.
type Resource struct {
	// Format is that of the API, empty for nothing.
	Format wire.Format
	// ID is which one, empty for all of them.
	ID string
	// Part is what of it, or what is to be done with it: empty for the whole.
	Part string
	// Answer: it is an answer of a model, kept by its id.
	Answer bool
	// Given: the id is one as the API gives, and so does whoever translates to it.
	Given bool
	// Missing is what the API says where there is none of that id.
	Missing string
}

// Codec is a [wire.Codec] of a format whose API has such things.
type Codec interface {
	// Resource returns what a path is that of, nothing if the API has none there.
	Resource(path string) Resource
	// Deleted returns the answer to a request that has had an answer deleted, nil where
	// the API says nothing.
	Deleted(id string) []byte
}

// Find returns what a request is about. Those that ask for an answer, or for the length of a
// prompt, are about nothing.
func Find(method, path string) (Resource, bool) {
	if method != http.MethodGet && method != http.MethodPost && method != http.MethodDelete && method != http.MethodPatch {
		return Resource{}, false
	}
	for _, f := range wire.Formats() {
		if c, ok := f.Codec().(Codec); ok {
			if r := c.Resource(path); r.Format != "" {
				return r, true
			}
		}
	}
	return Resource{}, false
}

// Deletes reports whether a request has an answer deleted.
func (r *Resource) Deletes(method string) bool {
	return method == http.MethodDelete && r.Answer && r.ID != "" && r.Part == ""
}

// Unkept reports whether nobody keeps the thing where the API is translated to another: an
// answer that has got its id on the way.
func (r *Resource) Unkept() bool { return r.Answer && r.Given }

// Deleted is what the API says of an answer that was deleted.
func (r *Resource) Deleted() []byte {
	if c, ok := r.Format.Codec().(Codec); ok {
		return c.Deleted(r.ID)
	}
	return nil
}

// Collection is a path up to and with the name of the collection that a resource is in: that
// of requests which ask for an answer.
func (r *Resource) Collection(path string) string {
	path = strings.TrimSuffix(path, "/"+r.Part)
	return strings.TrimSuffix(path, "/"+r.ID)
}

// In takes a path apart that leads into a collection, such as /responses: the id, and what
// stands behind it. It reports false for the paths of other things.
func In(path, collection string) (id, part string, ok bool) {
	if strings.HasSuffix(path, collection) {
		return "", "", true
	}
	at := strings.LastIndex(path, collection+"/")
	if at < 0 {
		return "", "", false
	}
	id, part, _ = strings.Cut(path[at+len(collection)+1:], "/")
	return id, part, id != ""
}
