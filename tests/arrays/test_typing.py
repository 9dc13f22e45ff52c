"""What a type checker reads of arrays: most methods are put into the class when the package is imported."""

from __future__ import annotations

import ast
import inspect

import bsp.arrays as ba


def written() -> dict[str, ast.stmt]:
    """What the text of the class Array defines or declares, by name."""
    (text,) = ast.parse(inspect.getsource(ba.Array)).body
    assert isinstance(text, ast.ClassDef)
    found: dict[str, ast.stmt] = {}
    for part in text.body:
        for each in part.body if isinstance(part, ast.If) else [part]:
            if isinstance(each, ast.FunctionDef):
                found[each.name] = each
            elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                found[each.target.id] = each
    return found


def test_type_checkers_see_every_method_and_property_of_an_array_and_no_other() -> None:
    given = {name for name, value in vars(ba.Array).items() if callable(value) or isinstance(value, property)}
    assert written().keys() - set(ba.Array.__slots__) == given


def test_methods_are_declared_with_parameters_of_the_functions_they_are() -> None:
    others = {"copy", "reshape", "astype", "resize"}  # NumPy's methods have other parameters than its functions
    for name in written().keys() & set(ba.__all__) - others:
        declared = written()[name]
        if isinstance(declared, ast.FunctionDef):
            taken = inspect.signature(getattr(ba, name)).parameters
            own = declared.args.posonlyargs + declared.args.args + declared.args.kwonlyargs
            assert {each.arg for each in own} - {"self"} - {"out"} <= taken.keys(), name
