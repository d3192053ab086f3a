// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"reflect"
	"testing"
)

// A View with a change in any one field is another View. A field that the comparison forgets fails here.
func TestEachFieldIsCompared(t *testing.T) {
	t.Parallel()
	for _, f := range fields[Interface](t, "current") {
		var i Interface
		set(t, reflect.ValueOf(&i).Elem().FieldByIndex(f.Index))
		if i.isSame(Interface{}) || (Interface{}).isSame(i) {
			t.Errorf("a change of Interface.%s alone is not noticed", f.Name)
		}
	}
	for _, f := range fields[View](t, "revision") {
		var v View
		set(t, reflect.ValueOf(&v).Elem().FieldByIndex(f.Index))
		if v.equal(View{}) || (View{}).equal(v) {
			t.Errorf("a change of View.%s alone is not noticed", f.Name)
		}
	}
}

// fields returns the exported fields of T. The only other field is replaced, which View.update does without a new View.
func fields[T any](t *testing.T, replaced string) (all []reflect.StructField) {
	t.Helper()
	for f := range reflect.TypeFor[T]().Fields() {
		switch {
		case f.IsExported():
			all = append(all, f)
		case f.Name != replaced:
			t.Errorf("%s.%s: expected an exported field, which this test can change", reflect.TypeFor[T](), f.Name)
		}
	}
	return all
}

// set gives a zero field another value.
func set(t *testing.T, field reflect.Value) {
	t.Helper()
	switch field.Kind() {
	case reflect.String:
		field.SetString("x")
	case reflect.Uint16, reflect.Uint32:
		field.SetUint(1)
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	default:
		t.Errorf("no value for a field of type %s", field.Type())
	}
}
