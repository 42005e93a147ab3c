// How values of the runtime layer become classes and functions of Python, each by one statement:
//
//   record<WorkItem>(module, "WorkItem", "A piece of work ...",
//                    field("units", &WorkItem::units, "equal parts"), ...);
//   planner(module, "pipeline", &pipeline, "1F1B ...",
//           field("ranks", &PipelineSpec::ranks, "of the pipeline"), ...);
//
// A record has a constructor with a keyword for each field and the defaults of C++, attributes,
// equality and a repr. A planner is a function of one structure, whose fields are its keywords.
// Lists that an attribute gives are copies: to change one, assign another.
//
// Units: Nanoseconds and Bytes are int in Python. Sequences of integers may be lists or arrays.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "tutti/runtime/units.h"

namespace tutti::python {

/// Whole numbers from a list, a tuple, or an array of integers of any width.
struct Integers {
  std::vector<int64_t> values;
  operator const std::vector<int64_t>&() const { return values; }  // NOLINT: it is one

  std::vector<int> narrow() const { return std::vector<int>(values.begin(), values.end()); }
  std::vector<int32_t> narrow32() const {
    return std::vector<int32_t>(values.begin(), values.end());
  }
};

/// Fills `values` from an array of one dimension; false if the object is none.
bool integers_of_array(nanobind::handle object, std::vector<int64_t>& values);

template <class Owner, class Value>
struct Field {
  const char* name;
  Value Owner::*member;
  const char* doc;
};

template <class Owner, class Value>
Field<Owner, Value> field(const char* name, Value Owner::*member, const char* doc) {
  return {name, member, doc};
}

/// The description with a line for each field.
std::string described(const char* doc,
                      const std::vector<std::pair<const char*, const char*>>& fields);

}  // namespace tutti::python

namespace nanobind::detail {

template <class Unit>
struct type_caster<tutti::runtime::Quantity<Unit>> {
  using Number = tutti::runtime::Quantity<Unit>;
  NB_TYPE_CASTER(Number, const_name("int"))

  bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
    make_caster<int64_t> number;
    if (!number.from_python(source, flags, cleanup)) return false;
    value = Number(number.operator cast_t<int64_t>());
    return true;
  }
  static handle from_cpp(Number source, rv_policy policy, cleanup_list* cleanup) noexcept {
    return make_caster<int64_t>::from_cpp(source.value, policy, cleanup);
  }
};

template <>
struct type_caster<tutti::python::Integers> {
  NB_TYPE_CASTER(tutti::python::Integers, const_name("collections.abc.Sequence[int]"))

  bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
    make_caster<std::vector<int64_t>> list;
    if (PyList_Check(source.ptr()) || PyTuple_Check(source.ptr()) ||
        !tutti::python::integers_of_array(source, value.values)) {
      if (!list.from_python(source, flags, cleanup)) return false;
      value.values = list.operator cast_t<std::vector<int64_t>>();
    }
    return true;
  }
  static handle from_cpp(const tutti::python::Integers& source, rv_policy policy,
                         cleanup_list* cleanup) noexcept {
    return make_caster<std::vector<int64_t>>::from_cpp(source.values, policy, cleanup);
  }
};

}  // namespace nanobind::detail

namespace tutti::python {

template <class Owner, class... Values>
std::string text_of(const char* name, const Owner& value, const Field<Owner, Values>&... fields) {
  std::string text = std::string(name) + "(";
  const char* between = "";
  ((text += between + std::string(fields.name) + "=" +
            nanobind::repr(nanobind::cast(value.*(fields.member))).c_str(),
    between = ", "),
   ...);
  return text + ")";
}

/// `kShort`: its text has all fields; a class with long lists writes its own.
template <class Owner, bool kShort = true, class... Values>
nanobind::class_<Owner> record(nanobind::module_& module, const char* name, const char* doc,
                               Field<Owner, Values>... fields) {
  namespace nb = nanobind;
  const std::string text = described(doc, {{fields.name, fields.doc}...});
  nb::class_<Owner> made(module, name, text.c_str());
  if constexpr (std::is_default_constructible_v<Owner>) {
    const Owner defaults{};
    made.def(
        "__init__",
        [fields...](Owner* self, Values... values) {
          new (self) Owner{};
          ((self->*(fields.member) = std::move(values)), ...);
        },
        nb::kw_only(), (nb::arg(fields.name) = defaults.*(fields.member))...);
    (made.def_rw(fields.name, fields.member, fields.doc), ...);
  } else {
    (made.def_ro(fields.name, fields.member, fields.doc), ...);
  }
  if constexpr (kShort) {
    made.def("__repr__",
             [name, fields...](const Owner& self) { return text_of(name, self, fields...); });
  }
  made.def(
      "__eq__",
      [fields...](const Owner& self, nb::handle other) {
        if (!nb::isinstance<Owner>(other)) return false;
        const Owner& value = nb::cast<const Owner&>(other);
        return (nb::cast(self.*(fields.member)).equal(nb::cast(value.*(fields.member))) && ...);
      },
      nb::arg("other").none());
  return made;
}

template <class Spec, class Result, class... Values>
void planner(nanobind::module_& module, const char* name, Result (*plan)(const Spec&),
             const char* doc, Field<Spec, Values>... fields) {
  namespace nb = nanobind;
  const std::string text = described(doc, {{fields.name, fields.doc}...});
  const Spec defaults{};
  module.def(
      name,
      [plan, fields...](Values... values) {
        Spec spec{};
        ((spec.*(fields.member) = std::move(values)), ...);
        return plan(spec);
      },
      nb::kw_only(), (nb::arg(fields.name) = defaults.*(fields.member))...,
      nb::call_guard<nb::gil_scoped_release>(), text.c_str());
}

}  // namespace tutti::python
