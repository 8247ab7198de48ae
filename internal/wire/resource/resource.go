// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package resource identifies requests that ask no model for an answer: requests for stored
// answers, batches, caches and other objects of an API.
package resource

import (
	"net/http"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Resource is the object of an API that a request addresses by its path.
type Resource struct {
	// Format is the format of the API, empty if the path addresses no object.
	Format wire.Format
	// ID is the id of the object, empty for the whole collection.
	ID string
	// Part is a part of the object or an action on it, empty for the object itself.
	Part string
	// Answer tells that the object is a stored answer of a model.
	Answer bool
	// Given tells that the id has the form of ids from the API. Translations to the API use this form too.
	Given bool
	// Missing is the API's error text for an unknown id.
	Missing string
}

// Codec is a [wire.Codec] of a format with such objects in its API.
type Codec interface {
	// Resource returns the object at a path, the zero value if the API has none there.
	Resource(path string) Resource
	// Deleted returns the response to a request that deleted a stored answer, nil for an empty
	// response.
	Deleted(id string) []byte
}

// Find returns the object that a request addresses. Requests for an answer or for a token count
// address none.
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

// Deletes reports whether a request deletes a stored answer.
func (r *Resource) Deletes(method string) bool {
	return method == http.MethodDelete && r.Answer && r.ID != "" && r.Part == ""
}

// Unkept reports whether no upstream stores the answer if the API is translated to another. An
// answer with an id in the API's form then got its id from the translation.
func (r *Resource) Unkept() bool { return r.Answer && r.Given }

// Deleted returns the API's response to the deletion of a stored answer.
func (r *Resource) Deleted() []byte {
	if c, ok := r.Format.Codec().(Codec); ok {
		return c.Deleted(r.ID)
	}
	return nil
}

// Collection returns the path up to and including the collection of the object. Requests for an
// answer go to this path.
func (r *Resource) Collection(path string) string {
	path = strings.TrimSuffix(path, "/"+r.Part)
	return strings.TrimSuffix(path, "/"+r.ID)
}

// In splits a path into a collection, such as /responses, into the id and the rest after it. It
// reports false for paths outside the collection.
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
